"""The clients, and how the libraries of each package registry are installed."""

import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass
class Client:
    name: str
    ecosystem: str
    package: str
    method: str = "GET"
    api: str = ""  # of `tokens` in the gateway's file
    streams: bool = True
    setting: str = ""  # that makes it wait longer
    raises: bool = True  # an error for a status such as 429; without it the driver makes one
    is_patient: bool = True  # it bears 70 s; one that does not is tried with the setting, too

    def has(self, case):
        return {"stream": self.streams, "patient": not self.is_patient}.get(case, True)

    def version(self):
        return VERSIONS[self.ecosystem]()[self.package]


CLIENTS = [
    Client("openai", "python", "openai", "POST", "openai", setting="`OpenAI(timeout=1800)`"),
    Client("anthropic", "python", "anthropic", "POST", "anthropic", setting="`Anthropic(timeout=1800)`"),
    Client("google-genai", "python", "google-genai", "POST", "gemini"),
    Client("google-genai with `retry_options`", "python", "google-genai", "POST", "gemini"),
    Client("mistralai", "python", "mistralai", "POST", "openai"),
    Client("cohere", "python", "cohere", "POST", setting="`ClientV2(timeout=1800)`"),
    Client("stripe, `StripeClient`", "python", "stripe", "POST", streams=False,
           setting="`http_client=stripe.RequestsClient(timeout=300)`"),
    Client("stripe, functions", "python", "stripe", "POST", streams=False,
           setting="`stripe.default_http_client = stripe.RequestsClient(timeout=300)`"),
    Client("boto3", "python", "boto3", "POST", streams=False, is_patient=False,
           setting="`Config(read_timeout=300)`"),
    Client("PyGithub", "python", "PyGithub", streams=False, is_patient=False, setting="`Github(timeout=300)`"),
    Client("huggingface_hub, `model_info`", "python", "huggingface_hub", streams=False),
    Client("huggingface_hub, `list_models`", "python", "huggingface_hub", streams=False),
    Client("huggingface_hub, download", "python", "huggingface_hub", streams=False, is_patient=False,
           setting="`HF_HUB_DOWNLOAD_TIMEOUT=300`, `HF_HUB_ETAG_TIMEOUT=300`"),
    Client("requests", "python", "requests"),
    Client("requests with urllib3's `Retry`", "python", "requests"),
    Client("httpx", "python", "httpx", is_patient=False, setting="`httpx.Client(timeout=300)`"),
    Client("aiohttp", "python", "aiohttp", setting="`ClientTimeout(total=1800)`"),
    Client("openai (Node)", "node", "openai", "POST", "openai", setting="`timeout: 1_800_000`"),
    Client("@anthropic-ai/sdk", "node", "@anthropic-ai/sdk", "POST", "anthropic", setting="`timeout: 1_800_000`"),
    Client("ai", "node", "ai", "POST", "openai"),
    Client("octokit", "node", "octokit", streams=False),
    Client("got", "node", "got"),
    Client("axios", "node", "axios"),
    Client("ky", "node", "ky", is_patient=False, setting="`timeout: 300_000`"),
    Client("undici", "node", "undici", raises=False),
    Client("fetch", "node", "fetch", raises=False),
    Client("openai-go", "go", "github.com/openai/openai-go/v3", "POST", "openai"),
    Client("go-github", "go", "github.com/google/go-github/v88", streams=False),
    Client("go-retryablehttp", "go", "github.com/hashicorp/go-retryablehttp"),
    Client("net/http", "go", "net/http", raises=False),
    Client("okhttp", "java", "okhttp-jvm", raises=False, is_patient=False,
           setting="`readTimeout(Duration.ofMinutes(5))`"),
    Client("okhttp, POST", "java", "okhttp-jvm", "POST", streams=False, raises=False, is_patient=False,
           setting="`readTimeout(Duration.ofMinutes(5))`"),
    Client("async-openai", "rust", "async-openai", "POST", "openai"),
    Client("reqwest", "rust", "reqwest"),
    Client("reqwest, blocking", "rust", "reqwest", is_patient=False, setting="`.timeout(Duration::from_secs(300))`"),
]


def of_python():
    text = (HERE / "python/requirements.in").read_text()
    return dict(re.findall(r"^([\w.-]+)==(\S+)$", text, re.M))


def of_node():
    return json.loads((HERE / "node/package.json").read_text())["dependencies"] | {"fetch": "20"}


def of_go():
    text = (HERE / "go/go.mod").read_text()
    versions = re.findall(r"^\t(\S+) v(\S+)$", text, re.M)
    return dict(versions) | {"net/http": re.search(r"^go (\S+)$", text, re.M)[1]}


def of_java():
    text = (HERE / "java/pom.xml").read_text()
    return dict(re.findall(r"<artifactId>(\S+)</artifactId>\s*<version>(\S+)</version>", text))


def of_rust():
    text = (HERE / "rust/Cargo.toml").read_text()
    return dict(re.findall(r'^([\w-]+) = .*"=([\d.]+)"', text, re.M))


VERSIONS = {"python": of_python, "node": of_node, "go": of_go, "java": of_java, "rust": of_rust}


def run(*command, **more):
    if shutil.which(command[0]) is None:
        sys.exit(f"{command[0]} is missing")
    subprocess.run(command, check=True, **more)


def is_new(place, wanted):
    """Whether another list of packages is wanted than is installed; it is noted as installed only by done()."""
    mark = place / "installed.txt"
    return not mark.exists() or mark.read_text() != wanted.read_text()


def done(place, wanted):
    (place / "installed.txt").write_text(wanted.read_text())


def install(ecosystem, directory):
    """Installs the pinned libraries; returns the command of the driver, which takes the name of a client."""
    place = directory / ecosystem
    place.mkdir(exist_ok=True)
    return INSTALLERS[ecosystem](place)


def copy(place, folder, *names):
    for name in names:
        shutil.copy(HERE / folder / name, place)


def install_python(place):
    wanted = HERE / "python/requirements.txt"
    python = place / "bin/python"
    if is_new(place, wanted):
        run("python3", "-m", "venv", "--clear", place)
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "-r", wanted)
        done(place, wanted)
    return [python, HERE / "python/driver.py"]


def install_node(place):
    wanted = HERE / "node/package-lock.json"
    copy(place, "node", "package.json", "package-lock.json", "driver.mjs")
    if is_new(place, wanted):
        run("npm", "ci", "--no-fund", "--no-audit", "--ignore-scripts", "--loglevel=error", cwd=place)
        done(place, wanted)
    return ["node", place / "driver.mjs"]


def install_go(place):
    copy(place, "go", "go.mod", "go.sum", "main.go")
    run("go", "build", "-o", "driver", ".", cwd=place, env=os.environ | {"GOFLAGS": "-mod=readonly -buildvcs=false"})
    return [place / "driver"]


def install_java(place):
    copy(place, "java", "pom.xml", "Driver.java")
    run("mvn", "--quiet", "--batch-mode", "--color=never", "dependency:copy-dependencies", "-DoutputDirectory=jars",
        cwd=place)
    return ["java", "-cp", f"{place}/jars/*", place / "Driver.java"]


def install_rust(place):
    (place / "src").mkdir(exist_ok=True)
    copy(place, "rust", "Cargo.toml")
    shutil.copy(HERE / "rust/main.rs", place / "src/main.rs")
    run("cargo", "build", "--quiet", cwd=place)
    return [place / "target/debug/clients"]


INSTALLERS = {"python": install_python, "node": install_node, "go": install_go, "java": install_java,
              "rust": install_rust}
