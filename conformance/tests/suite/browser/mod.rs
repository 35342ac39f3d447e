//! A Chromium without a window. The tests send it JSON messages over two pipes; each message ends with a zero byte.

use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

/// Longest time for an answer, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Browser {
    process: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    session: String,
    next: u64,
    /// Number of pages that were loaded.
    loads: u64,
    /// Errors that the page reported.
    pub(crate) complaints: Vec<String>,
    _profile: tempfile::TempDir,
}

/// Returns the browser's program, which is found by name on the PATH.
pub(crate) fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|program| program.is_file())
}

impl Browser {
    pub(crate) fn start(program: &PathBuf) -> Self {
        let profile = tempfile::tempdir().unwrap();
        // The browser expects its pipes at file descriptors 3 and 4.
        let mut process = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null", "sh"])
            .arg(program)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
            ])
            .args(["--disable-dev-shm-usage", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (to, from) = (
            process.stdin.take().unwrap(),
            process.stdout.take().unwrap(),
        );
        let mut browser = Self {
            process,
            to,
            from: reader(from),
            session: String::new(),
            next: 0,
            loads: 0,
            complaints: Vec::new(),
            _profile: profile,
        };
        let target = browser.ask("Target.createTarget", json!({ "url": "about:blank" }));
        let attached = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.ask("Target.attachToTarget", attached);
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.ask(domain, json!({}));
        }
        browser
    }

    /// Sends a command and waits for its answer.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = self.next;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.to
            .write_all(format!("{message}\0").as_bytes())
            .unwrap();
        loop {
            let answer = self.hear();
            if answer["id"] == id {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    fn hear(&mut self) -> Value {
        let message = self
            .from
            .recv_timeout(PATIENCE)
            .expect("the browser answers");
        let params = &message["params"];
        match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => {
                self.complaints.push(params["exceptionDetails"].to_string());
            }
            Some("Runtime.consoleAPICalled") => self.complaints.push(params["args"].to_string()),
            Some("Page.loadEventFired") => self.loads += 1,
            Some("Log.entryAdded") => self.complaints.push(params["entry"].to_string()),
            _ => {}
        }
        message
    }

    pub(crate) fn open(&mut self, address: &str) {
        let before = self.loads;
        // The event may come before the answer.
        self.ask("Page.navigate", json!({ "url": address }));
        while self.loads == before {
            self.hear();
        }
    }

    /// Waits until an expression is true in the page.
    pub(crate) fn until(&mut self, expression: &str) {
        for _ in 0..500 {
            if self.get(&format!("Boolean({expression})")) == json!(true) {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("it never came to {expression}");
    }

    /// Evaluates an expression in the page.
    pub(crate) fn get(&mut self, expression: &str) -> Value {
        let params =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.ask("Runtime.evaluate", params);
        assert!(
            answer.get("exceptionDetails").is_none(),
            "{expression}: {answer}"
        );
        answer["result"]["value"].clone()
    }

    pub(crate) fn number(&mut self, expression: &str) -> u64 {
        let value = self.get(expression);
        value
            .as_u64()
            .unwrap_or_else(|| panic!("{expression}: {value}"))
    }

    pub(crate) fn text(&mut self, expression: &str) -> String {
        let value = self.get(expression);
        let text = value.as_str().map(str::to_owned);
        text.unwrap_or_else(|| panic!("{expression}: {value}"))
    }

    /// Presses a key, and waits until the page has drawn the result.
    pub(crate) fn press(&mut self, key: &str) {
        let code = match key {
            "Enter" => 13,
            "Escape" => 27,
            "Tab" => 9,
            "End" => 35,
            "Home" => 36,
            "ArrowLeft" => 37,
            "ArrowUp" => 38,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            other => u32::from(other.chars().next().unwrap().to_ascii_uppercase()),
        };
        let mut params = json!({ "type": "keyDown", "key": key, "windowsVirtualKeyCode": code });
        if key == "Enter" {
            params["text"] = json!("\r");
        } else if key.chars().count() == 1 {
            params["text"] = json!(key);
        }
        self.ask("Input.dispatchKeyEvent", params.clone());
        params["type"] = json!("keyUp");
        self.ask("Input.dispatchKeyEvent", params);
        self.get("new Promise((done) => setTimeout(done, 30))");
    }

    /// Sets the size of the window, and the colours that its user prefers.
    pub(crate) fn look(&mut self, (width, height): (u32, u32), colours: &str) {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.ask("Emulation.setDeviceMetricsOverride", size);
        let features = json!([{ "name": "prefers-color-scheme", "value": colours }]);
        self.ask(
            "Emulation.setEmulatedMedia",
            json!({ "features": features }),
        );
    }

    /// Returns a screenshot of the whole window as PNG in base 64.
    pub(crate) fn screenshot(&mut self) -> String {
        let shot = self.ask("Page.captureScreenshot", json!({ "format": "png" }));
        shot["data"].as_str().unwrap().to_owned()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn reader(from: ChildStdout) -> Receiver<Value> {
    let (send, receive) = channel();
    thread::spawn(move || {
        for message in BufReader::new(from).split(0) {
            let Ok(message) = message else { return };
            let Ok(message) = serde_json::from_slice(&message) else {
                return;
            };
            if send.send(message).is_err() {
                return;
            }
        }
    });
    receive
}
