-- cli_filter.lua: grants access to files at each submission by sbatch, salloc and srun.
--
-- A submission without a live ticket is refused, and a job without a grant is cancelled at once. Users switch this off
-- for a job that needs no files with ORTHRUS_GRANT=0.

local conf = os.getenv("SLURM_CONF") or "/etc/slurm/slurm.conf"
local grants = conf:gsub("/[^/]*$", "") .. "/grants.sh"

-- Lua 5.1 returns the status, newer ones true or nil.
local function succeeds(command)
  local result = os.execute(command)
  return result == true or result == 0
end

-- Whether this submission makes a job. A step has the grant of its job; sbatch and salloc make another job, within a job
-- as well.
local makes_job = false

function slurm_cli_setup_defaults(options, early_pass)
  return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, offset)
  local within = os.getenv("SLURM_JOB_ID") ~= nil
  makes_job = os.getenv("ORTHRUS_GRANT") ~= "0" and not (within and options.type == "srun")
  if makes_job and not succeeds("klist -s") then
    slurm.log_error("no live Kerberos ticket: run kinit, then submit again")
    if within then
      slurm.log_error("jobs within a job need a ticket for their own grants; ORTHRUS_GRANT=0 submits without a grant")
    end
    return slurm.ERROR
  end
  return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job, step)
  if makes_job and offset == 0 then
    if not succeeds(string.format("'%s' submit %d >/dev/null", grants, job)) then
      slurm.log_error("job %d has no grant and is cancelled", job)
      os.execute(string.format("scancel %d", job))
    end
  end
  return slurm.SUCCESS
end
