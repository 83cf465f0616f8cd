//! Profiles as text and as JSON, and the sentence that says why a statement was slow.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Operator, Profile, Task};

/// Share of the time from which a phase is named in the sentence.
const LARGE: f64 = 0.5;

fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

fn bytes(n: u64) -> String {
    match n {
        0..=9_999 => format!("{n} bytes"),
        10_000..=9_999_999 => format!("{} KB", n / 1000),
        _ => format!("{} MB", n / 1_000_000),
    }
}

impl Profile {
    /// Explains in one sentence what took the time.
    pub fn why(&self) -> String {
        let total = self.total.as_secs_f64().max(1e-9);
        let took = format!("It took {} ms", ms(self.total));
        let large = self.phases.iter().find(|(_, time)| time.as_secs_f64() / total > LARGE);
        match large {
            Some(("plan", time)) => return format!("{took}, {} ms of them for planning.", ms(*time)),
            Some(("queue", time)) => {
                return format!("{took}; {} ms of them it waited for its turn, because others ran.", ms(*time));
            }
            Some(("client", time)) => {
                return format!("{took}; {} ms of them it waited for the client to take rows.", ms(*time));
            }
            Some(("commit", time)) => {
                return format!(
                    "{took}, {} ms of them for the commit: it waited for the store, or for other commits.",
                    ms(*time)
                );
            }
            _ => {}
        }
        let all: Vec<&Operator> = self.operators.iter().flat_map(Operator::all).collect();
        let spilled: u64 = all.iter().map(|o| o.spilled_bytes).sum();
        let work: Duration = all.iter().map(|o| o.time).sum();
        let Some(most) = all.iter().max_by_key(|o| o.time).filter(|o| !o.time.is_zero()) else {
            return format!("{took}; nothing that was measured took much of it.");
        };
        let share = (most.time.as_secs_f64() / work.as_secs_f64() * 100.0).round();
        let mut text = match (self.task, most.name.as_str()) {
            (Task::Load, "receive") => format!("{took}; most of the time it waited for the client's bytes"),
            (Task::Load, "store") => format!("{took}; most of the time it waited for the store"),
            _ => format!("{took}; {share}% of the work ({} ms over all threads) was {}", ms(most.time), most.name),
        };
        if let Some(rows) = most.rows {
            let _ = write!(text, ", {rows} rows");
        }
        if spilled > 0 {
            let _ = write!(text, "; memory was short, {} went to disk and back", bytes(spilled));
        }
        text.push('.');
        text
    }

    /// The time at which it began, as text in UTC.
    pub fn started_text(&self) -> String {
        chrono::DateTime::<chrono::Utc>::from(self.started).format("%Y-%m-%d %H:%M:%S%.3f UTC").to_string()
    }

    /// Formats the profile as text for people.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        let mut line = |name: &str, value: &str| {
            let _ = writeln!(out, "  - {name}: {value}");
        };
        line("Profile ID", &self.id);
        line("Task Type", self.task.name());
        line("Task State", self.state);
        line("Start Time", &self.started_text());
        line("Total", &format!("{} ms", ms(self.total)));
        for (name, time) in &self.phases {
            line(&format!("Time, {name}"), &format!("{} ms", ms(*time)));
        }
        line("Rows", &self.rows.to_string());
        line("User", &self.user);
        line("Default Db", &self.database);
        line("Sql Statement", &self.statement);
        if let Some(message) = &self.message {
            line("Message", message);
        }
        line("Why", &self.why());
        if let Some(reads) = &self.reads {
            line("Reads", reads);
        }
        let _ = writeln!(out, "Operators:");
        self.operators.iter().for_each(|o| o.write(&mut out, 1));
        out
    }

    /// Formats the profile as JSON for programs.
    pub fn to_json(&self) -> Value {
        let mut times: serde_json::Map<String, Value> =
            self.phases.iter().map(|(name, time)| ((*name).to_string(), ms(*time).into())).collect();
        times.insert("total".into(), ms(self.total).into());
        json!({
            "id": self.id,
            "task": self.task.name(),
            "state": self.state,
            "message": self.message,
            "user": self.user,
            "database": self.database,
            "statement": self.statement,
            "started": self.started_text(),
            "ms": times,
            "rows": self.rows,
            "why": self.why(),
            "reads": self.reads,
            "operators": self.operators.iter().map(Operator::to_json).collect::<Vec<_>>(),
        })
    }
}

impl Operator {
    fn write(&self, out: &mut String, depth: usize) {
        let _ = write!(out, "{:indent$}{}", "", self.name, indent = depth * 2);
        if !self.detail.is_empty() {
            let _ = write!(out, ": {}", self.detail);
        }
        let _ = write!(out, " [time={} ms", ms(self.time));
        if let Some(rows) = self.rows {
            let _ = write!(out, ", rows={rows}");
        }
        for (name, value) in &self.counters {
            let _ = write!(out, ", {name}={value}");
        }
        out.push_str("]\n");
        self.inputs.iter().for_each(|o| o.write(out, depth + 1));
    }

    fn to_json(&self) -> Value {
        let counters: serde_json::Map<String, Value> =
            self.counters.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
        json!({
            "name": self.name,
            "detail": self.detail,
            "rows": self.rows,
            "ms": ms(self.time),
            "spilled_bytes": self.spilled_bytes,
            "counters": counters,
            "inputs": self.inputs.iter().map(Operator::to_json).collect::<Vec<_>>(),
        })
    }
}
