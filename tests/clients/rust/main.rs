//! Makes calls by one client library for Rust: driver CLIENT, with "CASE URL" on each line of standard input.
//!
//! The driver prints JSON: a line when it is ready, one for the first event of a stream, one for the end of each call.

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::types::chat::{
    ChatCompletionRequestUserMessageArgs, ChatCompletionStreamOptions, CreateChatCompletionRequest,
    CreateChatCompletionRequestArgs,
};
use futures::StreamExt;
use serde_json::{Value, json};
use std::error::Error;
use std::io::{BufRead, Read};
use std::time::{Duration, Instant};

type Outcome = Result<String, Box<dyn Error + Send + Sync>>;

fn tell(line: Value) {
    println!("{line}");
}

fn first_of(name: &str) {
    tell(json!({"case": name, "event": "first"}));
}

fn ask(streams: bool) -> Result<CreateChatCompletionRequest, Box<dyn Error + Send + Sync>> {
    let hello = ChatCompletionRequestUserMessageArgs::default().content("Hello").build()?;
    let mut ask = CreateChatCompletionRequestArgs::default();
    ask.model("m").max_tokens(50u32).messages([hello.into()]);
    if streams {
        let usage = ChatCompletionStreamOptions { include_usage: Some(true), include_obfuscation: None };
        ask.stream_options(usage);
    }
    Ok(ask.build()?)
}

async fn by_async_openai(name: &str, url: &str) -> Outcome {
    let config = OpenAIConfig::new().with_api_key("key").with_api_base(format!("{url}/v1"));
    let client = Client::with_config(config);
    if name != "stream" {
        let answer = client.chat().create(ask(false)?).await?;
        return Ok(answer.choices[0].message.content.clone().unwrap_or_default());
    }
    let mut events = client.chat().create_stream(ask(true)?).await?;
    let mut pieces = 0;
    while let Some(event) = events.next().await {
        event?;
        pieces += 1;
        if pieces == 1 {
            first_of(name);
        }
    }
    Ok(pieces.to_string())
}

async fn by_reqwest(name: &str, url: &str) -> Outcome {
    let mut answer = reqwest::get(format!("{url}/plain")).await?.error_for_status()?;
    if name != "stream" {
        return Ok(answer.text().await?);
    }
    let mut pieces = 0;
    while answer.chunk().await?.is_some() {
        pieces += 1;
        if pieces == 1 {
            first_of(name);
        }
    }
    Ok(pieces.to_string())
}

fn by_blocking(name: &str, url: &str) -> Outcome {
    let mut builder = reqwest::blocking::Client::builder();
    if name == "patient" {
        builder = builder.timeout(Duration::from_secs(300));
    }
    let mut answer = builder.build()?.get(format!("{url}/plain")).send()?.error_for_status()?;
    if name != "stream" {
        return Ok(answer.text()?);
    }
    let mut pieces = 0;
    let mut part = [0; 1000];
    while answer.read(&mut part)? > 0 {
        pieces += 1;
        if pieces == 1 {
            first_of(name);
        }
    }
    Ok(pieces.to_string())
}

fn run(client: &str, name: &str, url: &str, runtime: &tokio::runtime::Runtime) {
    let begun = Instant::now();
    let outcome = match client {
        "async-openai" => runtime.block_on(by_async_openai(name, url)),
        "reqwest" => runtime.block_on(by_reqwest(name, url)),
        _ => by_blocking(name, url),
    };
    let seconds = begun.elapsed().as_secs_f64();
    tell(match outcome {
        Ok(value) => json!({"case": name, "seconds": seconds, "value": value}),
        Err(error) => {
            let kind = format!("{error:?}");
            let kind = kind.split(|c: char| !c.is_alphanumeric() && c != ':').next().unwrap_or_default();
            json!({"case": name, "seconds": seconds, "error": kind, "text": error.to_string()})
        }
    });
}

fn main() -> Result<(), Box<dyn Error>> {
    let client = std::env::args().nth(1).ok_or("the name of a client is missing")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    tell(json!({"ready": true}));
    std::thread::scope(|threads| {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let (client, runtime) = (&client, &runtime);
            threads.spawn(move || {
                let (name, url) = line.split_once(' ').unwrap_or_default();
                run(client, name, url, runtime);
            });
        }
    });
    Ok(())
}
