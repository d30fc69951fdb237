#!/bin/sh
# Prolog: keep what `nvidia-smi topo -m` says of this node in a directory that all nodes share (slurm.conf: Prolog=).
# A job waits for it once a month, at most SECONDS; whatever fails, the job starts.

DIR=${PLACER_TOPO_DIR:-/var/lib/placer/topo}
SECONDS_AT_MOST=10
node=${SLURMD_NODENAME:-$(uname -n | cut -d. -f1)}
file=$DIR/$node.txt

command -v nvidia-smi >/dev/null 2>&1 || exit 0
test -d "$DIR" || exit 0
test -n "$(find "$file" -mtime -30 2>/dev/null)" && exit 0

new=$(mktemp "$DIR/.$node.XXXXXX") || exit 0
if timeout "$SECONDS_AT_MOST" nvidia-smi topo -m >"$new" 2>/dev/null && grep -q '^.*GPU0' "$new"; then
  chmod 644 "$new" && mv -f "$new" "$file"
else
  rm -f "$new"
fi
exit 0
