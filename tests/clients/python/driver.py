"""Makes calls by one client library for Python: driver.py CLIENT, with "CASE URL" on each line of standard input.

Each call is a process of its own, so none shares a pool, a retry budget or a global setting with another one. The first
call, which loads all that the others need, is made before they begin. The driver prints JSON: a line when it is ready,
with the library's own time limit if it tells that, one for the first event of a stream, one for the end of each call.
"""

import asyncio
import json
import os
import sys
import time

CLIENT = sys.argv[1]
PATIENT = 300  # seconds: longer than any wait here


def hello():
    return [{"role": "user", "content": "Hello"}]


class OpenAI:
    import_name = "openai"

    def __init__(self, url, _patient):
        import openai
        self.client = openai.OpenAI(api_key="key", base_url=url + "/v1")

    def call(self):
        answer = self.client.chat.completions.create(model="m", messages=hello(), max_tokens=50)
        return answer.choices[0].message.content

    def stream(self):
        for chunk in self.client.chat.completions.create(model="m", messages=hello(), max_tokens=50, stream=True,
                                                         stream_options={"include_usage": True}):
            if chunk.choices:
                yield chunk.choices[0].delta.content

    @staticmethod
    def limit():
        import openai
        return openai.OpenAI(api_key="key").timeout.read


class Anthropic:
    import_name = "anthropic"

    def __init__(self, url, _patient):
        import anthropic
        self.client = anthropic.Anthropic(api_key="key", base_url=url)

    def call(self):
        return self.client.messages.create(model="m", messages=hello(), max_tokens=50).content[0].text

    def stream(self):
        with self.client.messages.stream(model="m", messages=hello(), max_tokens=50) as events:
            yield from events.text_stream

    @staticmethod
    def limit():
        import anthropic
        return anthropic.Anthropic(api_key="key").timeout.read


class GoogleGenai:
    import_name = "google.genai"
    options = {}

    def __init__(self, url, _patient):
        from google import genai
        self.client = genai.Client(api_key="key", http_options={"base_url": url, **self.options})

    def call(self):
        return self.client.models.generate_content(model="m", contents="Hello").text

    def stream(self):
        for chunk in self.client.models.generate_content_stream(model="m", contents="Hello"):
            yield chunk.text


class GoogleGenaiRetries(GoogleGenai):
    options = {"retry_options": {"attempts": 3}}


class Mistral:
    import_name = "mistralai.client"

    def __init__(self, url, _patient):
        from mistralai.client import Mistral as Client
        self.client = Client(api_key="key", server_url=url)

    def call(self):
        return self.client.chat.complete(model="m", messages=hello(), max_tokens=50).choices[0].message.content

    def stream(self):
        for event in self.client.chat.stream(model="m", messages=hello(), max_tokens=50):
            if event.data.choices:
                yield event.data.choices[0].delta.content


class Cohere:
    import_name = "cohere"

    def __init__(self, url, _patient):
        import cohere
        self.client = cohere.ClientV2(api_key="key", base_url=url)

    def call(self):
        return self.client.chat(model="m", messages=hello()).message.content[0].text

    def stream(self):
        for event in self.client.chat_stream(model="m", messages=hello()):
            if event.type == "content-delta":
                yield event.delta.message.content.text

    @staticmethod
    def limit():
        import cohere
        return cohere.ClientV2(api_key="key")._client_wrapper.get_timeout()


class Stripe:
    import_name = "stripe"

    def __init__(self, url, _patient):
        import stripe
        self.client = stripe.StripeClient("key", base_addresses={"api": url})

    def call(self):
        return self.client.v1.customers.create({"name": "A"}).id

    @staticmethod
    def limit():
        import stripe
        return stripe.StripeClient("key")._requestor._get_http_client()._timeout


class StripeGlobal(Stripe):
    has_global_connection = True

    def __init__(self, url, _patient):
        import stripe
        stripe.api_key, stripe.api_base = "key", url
        self.stripe = stripe

    def call(self):
        return self.stripe.Customer.create(name="A").id


class Boto3:
    import_name = "boto3"

    def __init__(self, url, patient):
        import boto3
        from botocore.config import Config
        self.client = boto3.client("bedrock-runtime", endpoint_url=url, region_name="eu-west-1", aws_access_key_id="k",
                                   aws_secret_access_key="s", config=Config(read_timeout=PATIENT) if patient else None)

    def call(self):
        answer = self.client.converse(modelId="m", messages=[{"role": "user", "content": [{"text": "Hello"}]}])
        return answer["output"]["message"]["content"][0]["text"]


class PyGithub:
    import_name = "github"

    def __init__(self, url, patient):
        import github
        self.client = github.Github(base_url=url, auth=github.Auth.Token("key"),
                                    **({"timeout": PATIENT} if patient else {}))

    def call(self):
        return self.client.get_repo("a/b").full_name


class ModelInfo:
    import_name = "huggingface_hub"
    has_global_connection = True

    def __init__(self, url, _patient):
        import huggingface_hub
        self.hub = huggingface_hub
        self.client = huggingface_hub.HfApi(endpoint=url, token="hf_key")

    def call(self):
        return self.client.model_info("a/b").id


class ListModels(ModelInfo):
    def call(self):
        return next(iter(self.client.list_models(limit=1))).id


class Download(ModelInfo):
    patient_environment = {"HF_HUB_DOWNLOAD_TIMEOUT": str(PATIENT), "HF_HUB_ETAG_TIMEOUT": str(PATIENT)}

    def call(self):
        import tempfile
        with tempfile.TemporaryDirectory() as cache:
            with open(self.client.hf_hub_download("a/b", "file.txt", cache_dir=cache)) as file:
                return file.read()


class Requests:
    import_name = "requests"

    def __init__(self, url, _patient):
        import requests
        self.url = url + "/plain"
        self.session = requests.Session()

    def call(self):
        answer = self.session.get(self.url)
        answer.raise_for_status()
        return answer.text

    def stream(self):
        with self.session.get(self.url, stream=True) as answer:
            yield from answer.iter_lines()


class Urllib3Retry(Requests):
    def __init__(self, url, patient):
        super().__init__(url, patient)
        from requests.adapters import HTTPAdapter
        from urllib3 import Retry
        self.session.mount("http://", HTTPAdapter(max_retries=Retry(3, status_forcelist=[429, 502, 503, 504])))


class Httpx:
    import_name = "httpx"

    def __init__(self, url, patient):
        import httpx
        self.url = url + "/plain"
        self.client = httpx.Client(timeout=PATIENT) if patient else httpx.Client()

    def call(self):
        return self.client.get(self.url).raise_for_status().text

    def stream(self):
        with self.client.stream("GET", self.url) as answer:
            yield from answer.iter_lines()


class Aiohttp:
    import_name = "aiohttp"

    def __init__(self, url, _patient):
        self.url = url + "/plain"

    def call(self):
        import aiohttp

        async def one():
            async with aiohttp.ClientSession() as session:
                async with session.get(self.url, raise_for_status=True) as answer:
                    return await answer.text()
        return asyncio.run(one())

    def stream(self):
        import aiohttp

        async def all_lines():
            async with aiohttp.ClientSession() as session:
                async with session.get(self.url) as answer:
                    async for line in answer.content:
                        yield line

        loop = asyncio.new_event_loop()
        lines = all_lines()
        while True:
            try:
                yield loop.run_until_complete(anext(lines))
            except StopAsyncIteration:
                return

    @staticmethod
    def limit():
        import aiohttp
        return aiohttp.client.DEFAULT_TIMEOUT.total


KINDS = {
    "openai": OpenAI, "anthropic": Anthropic, "google-genai": GoogleGenai,
    "google-genai with `retry_options`": GoogleGenaiRetries, "mistralai": Mistral, "cohere": Cohere,
    "stripe, `StripeClient`": Stripe, "stripe, functions": StripeGlobal, "boto3": Boto3, "PyGithub": PyGithub,
    "huggingface_hub, `model_info`": ModelInfo, "huggingface_hub, `list_models`": ListModels,
    "huggingface_hub, download": Download, "requests": Requests, "requests with urllib3's `Retry`": Urllib3Retry,
    "httpx": Httpx, "aiohttp": Aiohttp,
}


def tell(**what):
    # One write of one line: several processes share the pipe.
    os.write(1, (json.dumps(what) + "\n").encode())


def run(case, url):
    begun = time.monotonic()
    try:
        client = KINDS[CLIENT](url, case == "patient")
        if case == "stream":
            pieces = 0
            for piece in client.stream():
                if piece and not pieces:
                    tell(case=case, event="first")
                pieces += bool(piece)
            end = {"value": str(pieces)}
        else:
            end = {"value": client.call()}
    except Exception as e:
        end = {"error": type(e).__name__, "text": str(e)}
    tell(case=case, seconds=time.monotonic() - begun, **end)


def main():
    kind = KINDS[CLIENT]
    if len(sys.argv) > 2:
        return run(*sys.argv[2:])
    __import__(kind.import_name)
    limit = getattr(kind, "limit", None)
    tell(ready=True, **({"limit": limit()} if limit else {}))
    children = []
    for line in sys.stdin:
        case, url = line.split()
        if case == "ok" and not hasattr(kind, "has_global_connection"):
            run(case, url)  # in this process: the others have what it loads
            continue
        child = os.fork()
        if child == 0:
            if case == "patient" and hasattr(kind, "patient_environment"):
                os.execve(sys.executable, [sys.executable, __file__, CLIENT, case, url],
                          os.environ | kind.patient_environment)
            run(case, url)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


main()
