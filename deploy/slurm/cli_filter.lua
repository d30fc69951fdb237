-- cli_filter.lua: sbatch and salloc ask placer what to add (slurm.conf: CliFilterPlugins=lua, this file beside it).
--
-- Fails open: whatever goes wrong with placer, the job is submitted as it is. Only jobs with GPUs are looked at, never
-- steps. A user turns it off with PLACER_SBATCH_OFF=1; PLACER_SBATCH_… as for `placer sbatch`.

local PLACER = os.getenv("PLACER_COMMAND") or "placer"
local SECONDS = 3 -- the most that a submission may wait

-- Options that say what the job needs; each goes to placer as it was given, wherever that was.
local ASKED = {
  ["partition"] = true, ["nodes"] = true, ["ntasks"] = true, ["ntasks-per-node"] = true, ["cpus-per-task"] = true,
  ["cpus-per-gpu"] = true, ["gpus"] = true, ["gpus-per-node"] = true, ["gpus-per-task"] = true,
  ["gpus-per-socket"] = true, ["sockets-per-node"] = true, ["gres"] = true, ["tres-per-task"] = true, ["mem"] = true,
  ["mem-per-cpu"] = true, ["mem-per-gpu"] = true, ["constraint"] = true, ["nodelist"] = true, ["exclude"] = true,
  ["reservation"] = true, ["switches"] = true, ["time"] = true, ["array"] = true, ["dependency"] = true,
  ["begin"] = true, ["segment"] = true, ["hint"] = true, ["threads-per-core"] = true, ["prefer"] = true,
}
local FLAGS = { ["exclusive"] = true, ["hold"] = true, ["spread-job"] = true, ["contiguous"] = true }

-- What placer may set. A nodelist is only ever given for nodes that are free now.
local ADDED = { ["nodelist"] = true, ["switches"] = true, ["exclude"] = true }

local function quoted(text)
  return "'" .. text:gsub("'", "'\\''") .. "'"
end

-- The command that asks, or nil where there is nothing to ask.
local function question(options)
  local json = slurm.json_cli_options(options)
  local said = json:match('^(.-),?"argv":%[') or json
  local gpus = false
  local words = { "timeout", tostring(SECONDS), quoted(PLACER), "sbatch", "--placer-print-added",
                  "--placer-timeout=" .. (SECONDS - 0.5) }
  for name, value in said:gmatch('"([%w-]+)":"([^"]*)"') do
    value = value:gsub("\\/", "/")
    local may_ask = name == "gres" or name == "tres-per-task"
    gpus = gpus or name:find("^gpus") ~= nil or (may_ask and value:find("gpu", 1, true) ~= nil)
    if FLAGS[name] and (value == "set" or value == name) then
      words[#words + 1] = "--" .. name
    elseif (ASKED[name] or FLAGS[name]) and not value:find("\\", 1, true) then
      words[#words + 1] = quoted("--" .. name .. "=" .. value)
    end
  end
  if not gpus then
    return nil
  end
  words[#words + 1] = "--wrap=true </dev/null 2>/dev/null; echo status=$?"
  return table.concat(words, " ")
end

local function advise(options)
  local command = question(options)
  if command == nil then
    return
  end
  local pipe = io.popen(command)
  local answer = pipe:read("*a")
  pipe:close()
  if not answer:find("status=0\n$") then
    return
  end
  for name, value in answer:gmatch("%-%-([%w-]+)=([^\n]+)\n") do
    if ADDED[name] then
      options[name] = value
    end
  end
end

function slurm_cli_setup_defaults(options, early_pass)
  return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, component)
  local kind = options["type"]
  local off = os.getenv("PLACER_SBATCH_OFF")
  if (kind == "sbatch" or kind == "salloc") and component == 0 and (off == nil or off == "" or off == "0") then
    pcall(advise, options)
  end
  return slurm.SUCCESS
end

function slurm_cli_post_submit(component, job, step)
  return slurm.SUCCESS
end
