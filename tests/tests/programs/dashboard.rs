//! The dashboard against the types that Grafana publishes for it. Grafana itself is in no registry
//! of the tests.

use e2e::{empty_folder, is_installed};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

const DASHBOARD: &str = include_str!("../../../packaging/monitoring/orthrus-dashboard.json");

/// Compiles a dashboard, and returns the errors of the TypeScript compiler.
fn complaints(dashboard: &Value, schema: &Path) -> String {
    let folder = empty_folder();
    let modules = schema.join("node_modules");
    std::os::unix::fs::symlink(modules, folder.path().join("node_modules")).expect("the folder is ours");
    let write =
        |name: &str, text: String| fs::write(folder.path().join(name), text).expect("the folder is ours");
    write("dashboard.d.ts", include_str!("dashboard.d.ts").to_owned());
    // A literal, because only of a literal the compiler asks that the type knows each of its names.
    let import = "import type { OrthrusDashboard } from './dashboard';";
    write("check.ts", format!("{import}\nexport const dashboard: OrthrusDashboard = {dashboard:#};\n"));
    let options = json!({
        "strict": true, "noEmit": true, "skipLibCheck": true, "moduleResolution": "node", "target": "es2020",
        "types": [], "preserveSymlinks": true,
    });
    write("tsconfig.json", json!({ "compilerOptions": options, "files": ["check.ts"] }).to_string());
    let output = Command::new("tsc").arg("-p").arg(folder.path()).output().expect("it is installed");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.success(), said.is_empty(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

#[test]
fn the_dashboard_has_the_types_of_grafana() {
    if !is_installed("tsc", "node-typescript") {
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/grafana-schema.sh");
    let output = Command::new(script).output().expect("a script of this repository");
    if output.status.code() == Some(77) {
        return eprintln!("skipped: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let schema = String::from_utf8(output.stdout).expect("a path");
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("it is JSON");
    assert_eq!(complaints(&dashboard, Path::new(schema.trim())), "");

    // All that Grafana does not know is found.
    for (place, wrong) in [
        ("/panels/1/options/legend/placement", json!("below")),
        ("/panels/1/options/tooltip", json!({ "mode": "multi", "sort": "desc", "colour": "red" })),
        ("/panels/1/fieldConfig/defaults/min", json!("0")),
        ("/panels/1/type", json!("timeline")),
        ("/panels/1/targets/0/expr", json!(1)),
        ("/templating/list/1/refresh", json!("always")),
    ] {
        let mut changed = dashboard.clone();
        *changed.pointer_mut(place).unwrap_or_else(|| panic!("there is no {place}")) = wrong;
        assert_ne!(complaints(&changed, Path::new(schema.trim())), "", "{place}");
    }
}
