//! A federation of devices with the bandwidths of real clients.

use std::fs;
use std::path::Path;

use doc::{Documents, Frames, Plan};
use overlap::{Federation, Options, PlanRequest, order_plan};

use crate::rows::Trouble;

/// Bandwidths of federated clients, in a folder beside the workspace that is not part of it.
const CLIENTS: &str = "../shared/data/fl_device/client_capacity.csv";

/// Plans of three tasks as NDJSON, one for each of the first `count` clients; `None` where the
/// measurements are absent.
pub fn plans(count: usize) -> Result<Option<String>, Trouble> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let Ok(text) = fs::read_to_string(root.join(CLIENTS)) else {
        return Ok(None);
    };
    let mut plans = String::new();
    // client,computation,communication,dl_kbps,ul_kbps
    let usable = text.lines().skip(1).filter_map(|line| {
        let fields: Vec<f64> = line.split(',').filter_map(|f| f.parse().ok()).collect();
        (fields.len() == 5 && fields[3] > 0.0 && fields[4] > 0.0).then_some(fields)
    });
    for fields in usable.cycle().take(count) {
        let speed = 42.0 / fields[1].max(1.0);
        let rate = |k: f64| (k * speed * 1000.0).round() / 1000.0;
        plans += &format!(
            "{{\"schema\":\"mt.plan/1\",\"id\":\"client-{}\",\"link\":{{\"down_bps\":{},\"up_bps\":{}}},\
             \"tasks\":[{},{},{}],\"rates\":[",
            fields[0],
            fields[3] * 1e3,
            fields[4] * 1e3,
            task("d121", 18_000, 30_000_000),
            task("v16", 27_000, 55_000_000),
            task("m3", 9_000, 15_000_000),
        );
        let names = ["d121", "v16", "m3"];
        let rows: Vec<String> = (1u32..8)
            .map(|set| {
                let on: Vec<&str> = (0..3)
                    .filter(|i| set & 1 << i != 0)
                    .map(|i| names[i])
                    .collect();
                let each = rate([1900.0, 1500.0, 1300.0][on.len() - 1]);
                let rates: Vec<String> = on.iter().map(|n| format!("\"{n}\":{each}")).collect();
                let on: Vec<String> = on.iter().map(|n| format!("\"{n}\"")).collect();
                format!(
                    "{{\"active\":[{}],\"samples_per_s\":{{{}}}}}",
                    on.join(","),
                    rates.join(",")
                )
            })
            .collect();
        plans += &rows.join(",");
        plans += "]}\n";
    }
    Ok(Some(plans))
}

fn task(id: &str, samples: u64, bytes: u64) -> String {
    format!(
        "{{\"id\":\"{id}\",\"samples\":{samples},\"update_bytes\":{{\"down\":{bytes},\"up\":{bytes}}}}}"
    )
}

/// Reads, orders and writes every plan of a stream, as the tool does.
pub fn stream(plans: &str) -> Result<Federation, Trouble> {
    let mut federation = Federation::default();
    let mut sink = std::io::sink();
    let frames = Frames::new(plans.as_bytes(), "plans");
    for plan in Documents::<_, Plan>::new(frames) {
        let request = PlanRequest::default();
        let timeline = order_plan(plan?, None, &request, &Options::default())?;
        federation.add(&timeline);
        doc::write_line(&mut sink, &timeline)?;
    }
    Ok(federation)
}
