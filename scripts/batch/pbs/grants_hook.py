"""grants_hook.py: a hook of OpenPBS and PBS Professional for `orthrus grants`.

The server runs it for runjob and endjob, the nodes for execjob_begin and execjob_end:

    qmgr -c "create hook grants"
    qmgr -c "set hook grants event = 'runjob,endjob,execjob_begin,execjob_end'"
    qmgr -c "set hook grants user = pbsadmin"
    qmgr -c "import hook grants application/x-python default grants_hook.py"

PBS's server waits for the first two, so that each has a few seconds; PBS's own limit is `alarm`, 30 seconds.
Users submit their grants with `grants_submit.sh`, since a hook of PBS runs without the user's ticket. A hook never
rejects a job: one without tickets is refused by the file server.
"""
import os
import subprocess

SETTINGS = {
    "ORTHRUS_GRANTS": "grants.example.org",
    "GRANTS_REALM": "EXAMPLE.ORG",
    "GRANTS_DOMAIN": "",
    "GRANTS_KEYTAB": "/etc/pbs/grants.keytab",
    "GRANTS_PRINCIPAL": "host/pbs.example.org@EXAMPLE.ORG",
    "ORTHRUS": "/usr/bin/orthrus",
}


def settings():
    """Returns the settings; variables of the environment take precedence."""
    return {name: os.environ.get(name, value) for name, value in SETTINGS.items()}


def parent(job):
    """Returns the name of a job in grants: `7[].server` for the task `7[3].server`."""
    head, bracket, rest = job.partition("[")
    return head + "[]" + rest.partition("]")[2] if bracket else job


def nodes(exec_host, domain):
    """Returns the nodes of `n1/0*4+n2/0`, once each."""
    found = []
    for part in exec_host.split("+"):
        node = part.split("/")[0] + domain
        if node not in found:
            found.append(node)
    return found


def command(event, job, user, exec_host):
    """Returns the arguments of the program for an event, or None."""
    conf = settings()
    base = [conf["ORTHRUS"], "grants"]
    if event in ("runjob", "endjob"):
        assign = base + ["assign", "--keytab", conf["GRANTS_KEYTAB"], "--principal", conf["GRANTS_PRINCIPAL"]]
        assign += ["--of", user + "@" + conf["GRANTS_REALM"], "--job", parent(job), "--run", job, "--wait", "5"]
        if event == "endjob":
            return assign + ["--over"]
        return assign + ["--node", ",".join(nodes(exec_host, conf["GRANTS_DOMAIN"]))]
    if event == "execjob_begin":
        return base + ["attach", "--job", job, "--user", user, "--realm", conf["GRANTS_REALM"]]
    if event == "execjob_end":
        return base + ["detach", "--run", job]
    return None


def run(event, job, user, exec_host):
    """Runs the program for an event; returns its error, or None."""
    arguments = command(event, job, user, exec_host)
    if arguments is None:
        return None
    environment = dict(os.environ, ORTHRUS_GRANTS=settings()["ORTHRUS_GRANTS"])
    try:
        done = subprocess.run(arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=15)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if done.returncode == 0 else done.stdout.decode(errors="replace").strip()


def main(pbs):
    """Handles the event of PBS."""
    event = pbs.event()
    names = {getattr(pbs, name.upper(), None): name for name in ("runjob", "endjob", "execjob_begin", "execjob_end")}
    job = event.job
    user = str(getattr(job, "euser", None) or str(job.Job_Owner).split("@")[0])
    error = run(names.get(event.type), str(job.id), user, str(job.exec_host or ""))
    if error:
        pbs.logmsg(pbs.LOG_WARNING, "grants: job %s: %s" % (job.id, error))
    event.accept()


try:
    import pbs as scheduler
except ImportError:
    scheduler = None
if scheduler is not None:
    main(scheduler)
