"""Calls of the openai SDK at once, as it comes: openai_calls.py URL COUNT. Prints [succeeded, seconds] of each."""

import asyncio
import json
import sys
import time

import openai


async def call(client, began):
    try:
        await client.chat.completions.create(model="m", max_tokens=16, messages=[{"role": "user", "content": "Hello."}])
        return True, time.monotonic() - began
    except openai.APIStatusError:
        return False, time.monotonic() - began


async def main(url, count):
    client = openai.AsyncOpenAI(api_key="none", base_url=url)
    began = time.monotonic()
    print(json.dumps(await asyncio.gather(*(call(client, began) for _ in range(count)))))


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
