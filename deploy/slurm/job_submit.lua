-- job_submit.lua: slurmctld asks placer what to add (slurm.conf: JobSubmitPlugins=lua, this file beside it).
--
-- slurmctld holds its locks while this runs, so that nothing here may ask slurmctld: placer reads a snapshot that a
-- timer writes (`placer snapshot take`), and the answer never pins nodes. Fails open. Prefer cli_filter.lua where jobs
-- come from login nodes; this one is for those that do not (REST, portals).

local PLACER = "placer"
local SNAPSHOT = "/var/lib/placer/snapshot.json"
local SECONDS = 1 -- the most that slurmctld may stand still for one submission
local MINUTES = 10 -- an older snapshot is not used
local OFF = {} -- user ids that are left alone: OFF = { [1001] = true }

local OPTIONS = {
  partition = "partition", num_tasks = "ntasks", ntasks_per_node = "ntasks-per-node", cpus_per_task = "cpus-per-task",
  features = "constraint", req_nodes = "nodelist", exc_nodes = "exclude", reservation = "reservation",
  time_limit = "time", tres_per_node = "gres", tres_per_job = "gpus", tres_per_task = "gpus-per-task",
}

local function quoted(text)
  return "'" .. text:gsub("'", "'\\''") .. "'"
end

local function given(value)
  if value == nil or value == "" or value == slurm.NO_VAL or value == slurm.NO_VAL16 or value == slurm.NO_VAL64 then
    return nil
  end
  return type(value) == "number" and string.format("%d", value) or tostring(value)
end

-- The command that asks, or nil where there is nothing to ask.
local function question(job)
  local gpus = (given(job.tres_per_node) or "") .. (given(job.tres_per_job) or "") .. (given(job.tres_per_task) or "")
  if not gpus:find("gpu", 1, true) or given(job.het_job_offset) ~= nil then
    return nil
  end
  local words = {
    "test -n \"$(find " .. quoted(SNAPSHOT) .. " -mmin -" .. MINUTES .. " 2>/dev/null)\" &&",
    "timeout", tostring(SECONDS), quoted(PLACER), "sbatch", "--placer-print-added", "--placer-no-pin",
    "--placer-timeout=" .. SECONDS, "--placer-snapshot", quoted(SNAPSHOT),
  }
  for field, option in pairs(OPTIONS) do
    local value = given(job[field])
    if value ~= nil then
      value = option == "gres" and value or value:gsub("gres[:/]gpu[=:]?", "")
      words[#words + 1] = quoted("--" .. option .. "=" .. (value == "" and "1" or value))
    end
  end
  local least, most = given(job.min_nodes), given(job.max_nodes)
  if least ~= nil then
    words[#words + 1] = "--nodes=" .. least .. ((most ~= nil and most ~= least) and ("-" .. most) or "")
  end
  local memory = given(job.min_mem_per_node)
  if memory ~= nil then
    words[#words + 1] = "--mem=" .. memory .. "M"
  end
  if given(job.array_inx) ~= nil then
    words[#words + 1] = "--array=0-1"
  end
  words[#words + 1] = "--wrap=true </dev/null 2>/dev/null; echo status=$?"
  return table.concat(words, " ")
end

local function advise(job)
  local command = question(job)
  if command == nil then
    return
  end
  local pipe = io.popen(command)
  local answer = pipe:read("*a")
  pipe:close()
  if not answer:find("status=0\n$") then
    return
  end
  local exclude = answer:match("%-%-exclude=([^\n]+)\n")
  if exclude ~= nil and given(job.exc_nodes) == nil then
    job.exc_nodes = exclude
  end
  local switches, minutes = answer:match("%-%-switches=(%d+)@(%d+):00\n")
  if switches ~= nil and given(job.req_switch) == nil then
    job.req_switch = tonumber(switches)
    job.wait4switch = tonumber(minutes) * 60
  end
end

function slurm_job_submit(job, partitions, uid)
  if not OFF[uid] then
    pcall(advise, job)
  end
  return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
  return slurm.SUCCESS
end

return slurm.SUCCESS
