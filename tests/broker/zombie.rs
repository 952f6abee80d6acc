//! A process that stood still for longer than its session, while another took its tasks, commits nothing of what it had.

use crate::process::eventually;
use crate::scene::{KEYS, Plan, Scene};
use crate::size;
use crate::topology::Draft;

fn stands_still(kind: impl FnOnce(Draft) -> Draft) {
    let mut scene = Scene::with(|draft| kind(draft.tiers(&["500ms"])));
    let zombie = scene.run(0);
    scene.send(size::records(1_000), Plan::mixed);
    scene.next_commit();
    let other = scene.run(1);
    scene.at_work("both have something", |scene| scene.writers().len() == 2);

    // It has calls that are answered while it stands still, and results that it could commit when it goes on.
    scene.handler.hold();
    scene.send(500, Plan::mixed);
    eventually("a record of each key is in flight, of both", || scene.handler.unanswered() == KEYS);
    zombie.freeze();
    scene.handler.release();
    scene.at_work("the other has everything", |scene| scene.writers().len() == 1);
    zombie.thaw();

    scene.at_work("it has rejoined by itself", |scene| scene.writers().len() == 2);
    scene.drain();
    assert_eq!(zombie.end().code(), Some(0));
    assert_eq!(other.end().code(), Some(0));
    let report = scene.audit();
    assert!(report.is_clean(), "{report}");
    assert!(report.repeated > 0, "what it had was called again by the other");
}

#[test]
fn a_zombie_of_the_classic_protocol_commits_nothing_and_rejoins() {
    stands_still(|draft| draft);
}

#[test]
fn a_zombie_of_the_protocol_consumer_commits_nothing_and_rejoins() {
    stands_still(|draft| draft.protocol("consumer"));
}
