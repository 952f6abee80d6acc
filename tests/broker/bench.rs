//! The benchmark runs, on few records.

use std::process::Command;

use crate::support::Kafka;

#[test]
fn the_benchmark_compares_and_restores() {
    let own = std::env::current_exe().unwrap();
    let bench = own.ancestors().nth(2).unwrap().join("examples/bench");
    assert!(bench.exists(), "build it first: cargo build --features broker-tests --example bench");
    let sizes = ["--records", "2000", "--partitions", "2", "--rounds", "1", "--empty-partitions", "3"];
    let run =
        Command::new(bench).args(["--bootstrap", Kafka::shared().bootstrap()]).args(sizes).output().unwrap();

    let told = String::from_utf8(run.stdout).unwrap();
    assert!(run.status.success(), "{told}{}", String::from_utf8_lossy(&run.stderr));
    for figure in
        ["latest / without a guard: ", "latest / bare loop: ", "restore of 2000 keys", "3 partitions"]
    {
        assert!(told.contains(figure), "{told}");
    }
}
