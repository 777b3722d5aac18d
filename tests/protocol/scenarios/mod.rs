//! Runs the stories of four files with the real state machine against a pure store.
//! `tests/protocol/scenarios/README.md` describes the format.

mod store;
mod words;
mod world;

use world::World;

/// Runs the stories in `text`. Returns an error with the first line that failed.
fn play(name: &str, text: &str) -> Result<(), String> {
    let mut world = World::default();
    let mut expectations = 0;
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        expectations += usize::from(line.starts_with("expect "));
        let place = || format!("{name}:{}: {line}", index + 1);
        world.take(line).map_err(|why| format!("{}\n    {why}", place()))?;
    }
    if expectations == 0 {
        return Err(format!("{name}: a story needs at least one `expect`"));
    }
    Ok(())
}

/// Returns the name and the lines of each story in a file. A story begins with `== NAME`.
fn stories(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split("== ").skip(1).filter_map(|story| story.split_once('\n'))
}

#[test]
fn all_stories_pass() {
    let files = [
        include_str!("campaigns.txt"),
        include_str!("leases.txt"),
        include_str!("hazards.txt"),
        include_str!("regressions.txt"),
    ];
    let (mut count, mut wrong) = (0, Vec::new());
    for (name, text) in files.into_iter().flat_map(stories) {
        count += 1;
        wrong.extend(play(name, text).err());
    }
    assert!(wrong.is_empty(), "{} stories failed\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(count, 38);
}

/// Asserts that the last line of a story fails, and that the error has the line and the reason.
#[track_caller]
fn fails(text: &str, reason: &str) {
    let why = play("x.txt", text).unwrap_err();
    let place = format!("x.txt:{}: ", text.lines().count());
    assert!(why.starts_with(&place) && why.contains(reason), "{why}");
}

#[test]
fn an_unknown_line_fails_with_its_position() {
    fails("a: candidate\n\nb: candidat", "not understood");
    fails("a: candidate\na: dance", "not understood");
    fails("store: explode", "not understood");
    fails("a: candidate\nexpect a flies", "not understood");
    fails("expect newest seven", "not understood");
    fails("expect a leads 1", "no participant is called `a`");
    fails("once upon a time", "not understood");
}

#[test]
fn a_failed_story_reports_the_difference() {
    let begin = "a: candidate\na> LIST after 0\n";
    fails("a: candidate\na> LIST after 1", "asks for: LIST after 0");
    fails(&format!("{begin}a< 1"), "the store answered: empty");
    fails("a: candidate\na< empty", "no request is in progress");
    fails(&format!("{begin}a> LIST after 0"), "waits for an answer");
    fails(&format!("{begin}a< empty\na: lapsed"), "changes nothing");
    fails(&format!("{begin}a< empty\nexpect a leads 1"), "CREATE 1 as a1");
    let leads = |who: &str| {
        let lines = [": candidate", "> LIST after 0", "< empty", "> CREATE 1 as ME1", "< done"];
        let lines = lines.into_iter().chain(["> LIST after 1", "< empty"]);
        lines.map(|line| format!("{who}{}\n", line.replace("ME", who))).collect::<String>()
    };
    let led = leads("a");
    fails(&format!("{led}expect a leads 2"), "leads 1");
    fails(&format!("{led}store: delete 1"), "I3");
    fails(&format!("{led}store: wipe\n{}", leads("b")), "I1");
    assert!(play("x.txt", &led).unwrap_err().contains("needs at least one `expect`"));
}
