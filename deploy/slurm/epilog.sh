#!/bin/sh
# Epilog: once a day, compare this node with what the prolog kept (slurm.conf: Epilog=). A lost GPU or link shows as a
# difference: the new matrix lies beside the old one as NODE.changed, and a line in the system log says so. Nothing is
# drained, and nothing that the prolog kept is replaced: a person looks, then removes both files.

DIR=${PLACER_TOPO_DIR:-/var/lib/placer/topo}
node=${SLURMD_NODENAME:-$(uname -n | cut -d. -f1)}
file=$DIR/$node.txt
stamp=$DIR/.$node.checked

command -v nvidia-smi >/dev/null 2>&1 || exit 0
test -s "$file" || exit 0
test -n "$(find "$stamp" -mtime -1 2>/dev/null)" && exit 0

: >"$stamp" || exit 0
new=$(mktemp "$DIR/.$node.XXXXXX") || exit 0
if timeout 10 nvidia-smi topo -m >"$new" 2>/dev/null && ! cmp -s "$new" "$file"; then
  chmod 644 "$new" && mv -f "$new" "$DIR/$node.changed"
  logger -t placer "topology of $node differs from $file: placer topo diff $file $DIR/$node.changed" || :
else
  rm -f "$new"
fi
exit 0
