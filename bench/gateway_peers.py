"""Gateways that keep a quota in front of an upstream, each as its own documentation says for a rate limit with retries.

Those from PyPI and npm are pinned in peers/gateways, and are installed into a folder that the caller names.
"""

import json
import pathlib
import re
import shutil
import subprocess

from processes import Running, free_port

PINS = pathlib.Path(__file__).resolve().parent / "peers" / "gateways"
LITELLM_KEY = "sk-of-the-bench"  # LiteLLM does not start without a key

GATEWAY = """threads = 1
access_log = "file:DIR/gateway-PORT.log"
admin = { listen = "127.0.0.1:ADMIN", token = "env:CANIGO_ADMIN_TOKEN" }
[[listen]]
address = "127.0.0.1:PORT"
[[upstream]]
name = "up"
url = "http://127.0.0.1:UP"
prefix = "/"
max_wait = { interactive = "10m", normal = "10m", batch = "10m" }
LIMITS
[[tenant]]
name = "local"
TENANT
"""

# https://nginx.org/en/docs/http/ngx_http_limit_req_module.html: a queue of `burst` calls, each delayed to the rate.
NGINX = """daemon off; worker_processes 1; pid nginx-PORT.pid; error_log nginx-PORT.err crit;
events { worker_connections 4096; }
http { access_log off; client_body_temp_path body-PORT; proxy_temp_path proxy-PORT; fastcgi_temp_path fastcgi-PORT;
  uwsgi_temp_path uwsgi-PORT; scgi_temp_path scgi-PORT;
  limit_req_zone all zone=all:1m rate=RATE; limit_req_status 429;
  upstream up { server 127.0.0.1:UP; keepalive 256; }
  server { listen 127.0.0.1:PORT backlog=4096;
    location / { limit_req zone=all burst=1000; proxy_pass http://up; proxy_http_version 1.1;
      proxy_set_header Connection ""; proxy_read_timeout 600s; } } }
"""

# The rate limit of HAProxy's documentation: a counter of requests, and a refusal above it. It delays no call to a rate.
HAPROXY = """global
  nbthread 1
defaults
  mode http
  timeout connect 5s
  timeout client 10m
  timeout server 10m
frontend in
  bind 127.0.0.1:PORT backlog 4096
  stick-table type integer size 1k expire 10m store http_req_rate(PERIOD)
  http-request track-sc0 int(1)
  http-request deny deny_status 429 if { sc_http_req_rate(0) gt RATE }
  default_backend up
backend up
  http-reuse always
  server a 127.0.0.1:UP
"""

# https://docs.litellm.ai/docs/routing: limits of the deployment, and retries that respect Retry-After.
LITELLM = """model_list:
  - model_name: m
    litellm_params:
      model: openai/m
      api_base: http://127.0.0.1:UP/v1
      api_key: none
      LIMIT
router_settings:
  num_retries: 10
  optional_pre_call_checks: [CHECKS]
general_settings:
  master_key: KEY
"""

# https://www.tensorzero.com/docs/gateway/guides/retries-fallbacks: its own rate limits refuse, so it waits in retries.
TENSORZERO = """[gateway.observability]
enabled = false
[models.m]
routing = ["up"]
[models.m.providers.up]
type = "openai"
model_name = "m"
api_base = "http://127.0.0.1:UP/v1"
api_key_location = "none"
[functions.f]
type = "chat"
[functions.f.variants.v]
type = "chat_completion"
model = "m"
retries = { num_retries = 10, max_delay_s = 10 }
"""


class Quota:
    """A quota of calls per second or tokens per minute. `mean`: the usual tokens of a call."""

    def __init__(self, calls=0, tokens=0, mean=0):
        self.calls, self.tokens, self.mean = calls, tokens, mean

    def calls_each(self):
        """Returns the number of calls, and its span: "s" or "m"."""
        return (self.tokens // self.mean, "m") if self.tokens else (self.calls, "s")


class Peer:
    """A gateway of another project. `path`, `fields` and `model`: the form of its calls."""

    def __init__(self, name, version, start, path="/v1/chat/completions", fields=lambda up: {}, model="m"):
        self.name, self.version, self.start = name, version, start
        self.path, self.fields, self.model = path, fields, model


def canigo(program, base, limits, tenant=""):
    def start(up, *_):
        port, admin = free_port(), free_port()
        text = GATEWAY.replace("LIMITS", limits).replace("TENANT", tenant).replace("DIR", str(base))
        text = text.replace(":ADMIN\"", f":{admin}\"").replace("UP", str(up)).replace("PORT", str(port))
        path = base / f"gateway-{port}.toml"
        path.write_text(text)
        running = Running([program, "--config", path], port)
        running.access_log = base / f"gateway-{port}.log"
        return running

    return start


def nginx(base):
    def start(up, quota):
        port = free_port()
        number, period = quota.calls_each()
        text = NGINX.replace("RATE", f"{number}r/{period}").replace("UP", str(up)).replace("PORT", str(port))
        path = base / f"nginx-{port}.conf"
        path.write_text(text)
        return Running([program_of("nginx"), "-p", f"{base}/", "-c", path], port)

    return start


def haproxy(base):
    def start(up, quota):
        port = free_port()
        number, period = quota.calls_each()
        text = HAPROXY.replace("PERIOD", f"1{period}").replace("RATE", str(number)).replace("UP", str(up))
        path = base / f"haproxy-{port}.cfg"
        path.write_text(text.replace("PORT", str(port)))
        return Running([program_of("haproxy"), "-db", "-f", path], port)

    return start


def litellm(base, place):
    def start(up, quota):
        port = free_port()
        limit = f"tpm: {quota.tokens}" if quota.tokens else f"rpm: {60 * quota.calls}"
        text = LITELLM.replace("LIMIT", limit).replace("UP", str(up)).replace("KEY", LITELLM_KEY)
        path = base / f"litellm-{port}.yaml"
        path.write_text(text.replace("CHECKS", "enforce_model_rate_limits" if quota.tokens else ""))
        return Running([place / "bin" / "litellm", "--config", path, "--host", "127.0.0.1", "--port", port], port,
                       {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}, 180)

    return start


def tensorzero(base, place):
    def start(up, _):
        path = base / f"tensorzero-{up}.toml"
        path.write_text(TENSORZERO.replace("UP", str(up)))
        told = base / f"tensorzero-{up}.port"
        command = [place / "bin" / "python", PINS / "tensorzero_gateway.py", path, told]
        return Running(command, env={"OPENAI_API_KEY": "none"}, seconds=60, told=told)

    return start


def portkey(place):
    def start(*_):
        port = free_port()
        program = place / "node_modules" / "@portkey-ai" / "gateway" / "build" / "start-server.js"
        return Running(["node", program, f"--port={port}", "--headless"], port, seconds=60)

    return start


def portkey_fields(up):
    """https://portkey.ai/docs/product/ai-gateway/automatic-retries: at most five attempts."""
    retry = {"attempts": 5, "on_status_codes": [429], "use_retry_after_header": True}
    return {"x-portkey-config": json.dumps({"provider": "openai", "api_key": "none", "retry": retry,
                                            "custom_host": f"http://127.0.0.1:{up}/v1"})}


def program_of(name):
    found = shutil.which(name) or f"/usr/sbin/{name}"
    return found if pathlib.Path(found).exists() else None


def pinned(name, package):
    lines = (PINS / name).read_text().splitlines()
    return next(line.split("==")[1] for line in lines if line.startswith(package + "=="))


def install_python(place, wanted):
    """Makes a virtual environment with the packages that the file pins."""
    mark = place / "installed.txt"
    if mark.exists() and mark.read_text() == (PINS / wanted).read_text():
        return
    run("python3", "-m", "venv", "--clear", place)
    run(place / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "-r", PINS / wanted)
    mark.write_text((PINS / wanted).read_text())


def install_node(place):
    place.mkdir(exist_ok=True)
    mark = place / "installed.json"
    if mark.exists() and mark.read_text() == (PINS / "package-lock.json").read_text():
        return
    for name in ("package.json", "package-lock.json"):
        shutil.copy(PINS / name, place)
    run("npm", "ci", "--no-fund", "--no-audit", "--ignore-scripts", "--loglevel=error", cwd=place)
    shutil.copy(PINS / "package-lock.json", mark)


def run(*command, **more):
    try:
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **more)
    except OSError as failed:
        raise RuntimeError(str(failed)) from None
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]}: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")


def openai_python(folder):
    """Returns a Python that has the openai SDK."""
    install_python(folder / "tensorzero", "tensorzero.txt")
    return folder / "tensorzero" / "bin" / "python"


def installed(base, folder, left_out):
    """Returns the peers that are installed or can be installed."""
    peers = []
    for name, start, version in (("nginx limit_req", nginx, ["nginx", "-v"]), ("HAProxy", haproxy, ["haproxy", "-v"])):
        if program := program_of(version[0]):
            told = subprocess.run([program, version[1]], capture_output=True, text=True)
            number = re.search(r"\d+\.\d+[.\d]*", told.stdout + told.stderr)[0]
            peers.append(Peer(name, number, start(base)))
        else:
            left_out.append(f"{name}: not installed")
    from_registries = [
        ("LiteLLM proxy", lambda p: install_python(p, "litellm.txt"), folder / "litellm", lambda p: Peer(
            "LiteLLM proxy", pinned("litellm.txt", "litellm"), litellm(base, p),
            fields=lambda up: {"Authorization": f"Bearer {LITELLM_KEY}"})),
        ("TensorZero", lambda p: install_python(p, "tensorzero.txt"), folder / "tensorzero", lambda p: Peer(
            "TensorZero", pinned("tensorzero.txt", "tensorzero"), tensorzero(base, p),
            path="/openai/v1/chat/completions", model="tensorzero::function_name::f")),
        ("Portkey", install_node, folder / "portkey", lambda p: Peer(
            "Portkey", json.loads((PINS / "package.json").read_text())["dependencies"]["@portkey-ai/gateway"],
            portkey(p), fields=portkey_fields))]
    for name, install, place, peer in from_registries:
        try:
            install(place)
            peers.append(peer(place))
        except RuntimeError as failed:
            left_out.append(f"{name}: cannot be installed: {failed}")
    return peers
