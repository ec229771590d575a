"""New processes and programs, and what would outlive the call."""

from __future__ import annotations


def tricks() -> dict[str, str]:
    python = "sys.executable"
    return {
        "fork": "os.fork()",
        "forkpty": "os.forkpty()",
        "system": "-1 if os.system('sleep MARK') == 127 << 8 else 1",
        "popen": "os.popen('sleep MARK').read()",
        "subprocess": f"__import__('subprocess').Popen([{python}, '-c', 'import time; time.sleep(MARK)'])",
        "subprocess in a session": "__import__('subprocess').Popen(['/bin/sleep', 'MARK'], start_new_session=True)",
        "run": "__import__('subprocess').run(['true'])",
        "spawn": "os.posix_spawn('/bin/sleep', ['sleep', 'MARK'], {})",
        "spawnv": "os.spawnv(os.P_NOWAIT, '/bin/sleep', ['sleep', 'MARK'])",
        "execv": "os.execv('/bin/true', ['true'])",
        "execve of Python": f"os.execve({python}, [{python}, '-c', '0'], {{}})",
        "fork_exec of sleep": "fork_exec('/bin/sleep', 'MARK')",
        "fork_exec of Python": f"fork_exec({python}, '-c', 'import time; time.sleep(MARK)')",
        "fork_exec of a shell": "fork_exec('/bin/sh', '-c', 'echo mine > LABEL')",
        "pool": "__import__('multiprocessing').Pool(2).map(len, ['a'])",
        "process": "__import__('multiprocessing').Process(target=print).start()",
        "forkserver": "__import__('multiprocessing').get_context('forkserver').Process(target=print).start()",
        "executor": "__import__('concurrent.futures').futures.ProcessPoolExecutor(1).submit(len, 'a').result(5)",
        "pty": "__import__('pty').spawn('/bin/true')",
        "pty fork": "__import__('pty').fork()",
        "libc fork": "past('libc.fork()')",
        "libc vfork": "past('call(58)')",
        "libc system": "past('libc.system(b\"sleep MARK\")') and -1",
        "libc execv": "past('libc.execv(b\"/bin/true\", None)')",
        "libc popen": 'past(\'libc.popen(b"sleep MARK", b"r")\') or -1',
        "libc daemon": "past('libc.daemon(0, 0)')",
        "libc setsid": "past('libc.setsid()')",
        "setsid": "os.setsid()",
        "setpgid": "os.setpgid(0, 0)",
        "400 forks": "[fork_exec('/bin/sleep', 'MARK') for _ in range(400)]",
    }
