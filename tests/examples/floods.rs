//! Lists the floods that `cargo xtask hostile` can run.

fn main() {
    e2e::hostile::FLOODS.iter().for_each(|flood| println!("{:14} {}", flood.name, flood.about));
}
