//! The actions that are possible in a state of the log, and their effects.

use tenure::protocol::find::{After, Listing};
use tenure::protocol::message::Nonce;
use tenure_fencing::protocol::{Header, LogAnswer, LogRequest, Sweep};

use super::world::{
    Action, Broken, FirstPage, Log, OneWriter, Reader, Trim, World, another, numbers,
};

impl Log {
    pub fn list_actions(&self, world: &World, actions: &mut Vec<Action>) {
        for (i, writer) in world.writers.iter().enumerate() {
            match writer.machine.request() {
                Some(request) => {
                    actions.push(Action::Step(i));
                    let lists = matches!(request, LogRequest::List(_));
                    if lists && world.left.torn > 0 && writer.first_page.is_none() {
                        actions.push(Action::FirstPage(i));
                    }
                    let creates = matches!(request, LogRequest::Create { .. });
                    if creates && world.left.unknown > 0 {
                        let lost = [Action::AnswerLost(i), Action::RequestLost(i), Action::Late(i)];
                        actions.extend(lost);
                    }
                    if creates && world.left.twice > 0 {
                        actions.push(Action::Twice(i));
                    }
                }
                None if writer.machine.standing().is_some() && writer.appends_left > 0 => {
                    actions.push(Action::Append(i));
                }
                None => {}
            }
        }
        actions.extend((0..world.limbo.len()).map(Action::Lands));
        if world.left.trims > 0 {
            actions.push(Action::TrimBegins);
        }
        for (i, trim) in world.trims.iter().enumerate() {
            match trim {
                Trim::Deleting { sweep, end } => {
                    let doomed = self.doomed(world, sweep, *end);
                    if doomed.is_empty() {
                        actions.push(Action::TrimGoesOn(i));
                    }
                    actions.extend(doomed.into_iter().map(|number| Action::Deletes(i, number)));
                }
                Trim::Done => {}
                Trim::Marked { .. } if world.left.torn > 0 => {
                    actions.extend([Action::TrimGoesOn(i), Action::TrimReadsFirstPage(i)]);
                }
                _ => actions.push(Action::TrimGoesOn(i)),
            }
        }
        match &world.reader {
            Reader::HasRead(..) => actions.push(Action::ReadsFloor),
            Reader::FloorRead(_) => {
                actions.extend(world.objects.keys().copied().map(Action::Reads))
            }
            Reader::Idle if world.left.reads > 0 && self.broken == Broken::ReadsFloorFirst => {
                actions.push(Action::ReadsFloor);
            }
            Reader::Idle if world.left.reads > 0 => {
                actions.extend(world.objects.keys().copied().map(Action::Reads));
            }
            Reader::Idle => {}
        }
    }

    /// Returns the numbers of the objects that this trim must still delete.
    fn doomed(&self, world: &World, sweep: &Sweep, end: u64) -> Vec<u64> {
        let all = world.objects.keys().copied();
        all.filter(|number| match self.broken {
            Broken::TrimsClaims => (sweep.from()..sweep.cut()).contains(number),
            Broken::TrimsNewest => *number <= end,
            Broken::TrimsFences if world.objects[number].is_fence() => *number < sweep.cut(),
            _ => sweep.deletes(*number),
        })
        .collect()
    }

    pub fn step(&self, world: &World, action: Action) -> Option<World> {
        let mut world = world.clone();
        match action {
            Action::Step(writer) => self.carry_out(&mut world, writer),
            Action::AnswerLost(writer) => {
                world.left.unknown -= 1;
                let (number, header) = self.sends(&world.writers[writer])?;
                world.create(number, header);
                self.answer(&mut world, writer, LogAnswer::Unknown);
            }
            Action::RequestLost(writer) => {
                world.left.unknown -= 1;
                self.answer(&mut world, writer, LogAnswer::Unknown);
            }
            Action::Late(writer) => {
                world.left.unknown -= 1;
                let create = self.sends(&world.writers[writer])?;
                world.limbo.push(create);
                self.answer(&mut world, writer, LogAnswer::Unknown);
            }
            Action::Twice(writer) => {
                world.left.twice -= 1;
                let create = self.sends(&world.writers[writer])?;
                world.limbo.push(create);
                self.carry_out(&mut world, writer);
            }
            Action::Lands(create) => {
                let (number, header) = world.limbo.remove(create);
                world.create(number, header);
            }
            Action::Append(writer) => {
                let nonce = draw(&mut world, writer);
                let it = &mut world.writers[writer];
                it.appends_left -= 1;
                it.append = Some(nonce);
                it.machine.append(nonce);
            }
            Action::FirstPage(writer) => {
                world.writers[writer].first_page = Some(world.first_page());
            }
            Action::TrimReadsFirstPage(trim) => {
                let Trim::Marked { marker } = world.trims[trim] else { return None };
                world.trims[trim] = Trim::HalfListed { marker, page: world.first_page() };
            }
            Action::TrimBegins => {
                world.left.trims -= 1;
                world.trims.push(Trim::Marked { marker: world.marker });
            }
            Action::TrimGoesOn(trim) => self.trim(&mut world, trim)?,
            Action::Deletes(_, number) => world.delete(number),
            Action::Reads(number) => self.read(&mut world, number),
            Action::ReadsFloor => self.read_floor(&mut world),
        }
        Some(world)
    }

    /// Returns the number and the header of the object that the writer creates now. Returns `None`
    /// if the writer sends another request.
    fn sends(&self, writer: &OneWriter) -> Option<(u64, Header)> {
        let Some(LogRequest::Create { number, mut header }) = writer.machine.request() else {
            return None;
        };
        if writer.other && Some(header.nonce) == writer.append {
            header.nonce = another(header.nonce);
        }
        Some((number, header))
    }

    fn carry_out(&self, world: &mut World, writer: usize) {
        let first_page = world.writers[writer].first_page.take();
        if first_page.is_some_and(|page| !self.counts(world, page)) {
            return;
        }
        let last = first_page.map_or(u64::MAX, |page| page.last);
        let it = &world.writers[writer];
        let Some(request) = it.machine.request() else { return };
        let answer = match request {
            LogRequest::List(After::Number(after)) => {
                let confirming = it.machine.standing().is_none() && after > 0;
                let alone = self.broken == Broken::NoConfirm && confirming;
                let after = if alone { u64::MAX - 1 } else { after };
                let numbers_after = world.objects.range(after + 1..).map(|(number, _)| *number);
                let mut numbers_after = numbers_after.filter(|number| *number <= last);
                let least = numbers_after.next();
                let greatest = numbers_after.next_back().or(least);
                let epochs = least.map(numbers).zip(greatest.map(numbers));
                LogAnswer::Listed(Listing { epochs, rest: None })
            }
            LogRequest::List(After::Key(_)) => return,
            LogRequest::Read(number) => match world.objects.get(&number) {
                Some(header) => LogAnswer::Found(self.as_read(it, *header)),
                None => LogAnswer::Missing,
            },
            LogRequest::Create { .. } => {
                let Some((number, header)) = self.sends(it) else { return };
                let fills = header.is_fence() && number < world.end();
                let skipped = self.broken == Broken::FillsNothing && fills;
                if skipped || world.create(number, header) {
                    LogAnswer::Created
                } else {
                    LogAnswer::Refused
                }
            }
            LogRequest::Floor if self.broken == Broken::NoFloorAtRefusal => LogAnswer::Floor(0),
            LogRequest::Floor => LogAnswer::Floor(world.marker.floor),
        };
        self.answer(world, writer, answer);
    }

    /// Returns whether a writer uses a listing of two pages. The floor shows that no trim has
    /// deleted the newest object meanwhile.
    fn counts(&self, world: &World, page: FirstPage) -> bool {
        page.floor == world.marker.floor || self.broken == Broken::TornListing
    }

    /// Returns the header that the writer reads. With [`Broken::ForgetsUnknown`] a writer sends a
    /// second object with another nonce. To this writer, that object seems to have the nonce of its
    /// append.
    fn as_read(&self, writer: &OneWriter, mut header: Header) -> Header {
        if let Some(nonce) = writer.append.filter(|nonce| header.nonce == another(*nonce)) {
            header.nonce = nonce;
        }
        header
    }

    fn answer(&self, world: &mut World, writer: usize, answer: LogAnswer) {
        let unknown = answer == LogAnswer::Unknown;
        let fresh = nonce(writer, world.writers[writer].drawn + 1);
        let machine = &mut world.writers[writer].machine;
        machine.handle(answer, fresh);
        let creates = machine.request();
        if matches!(creates, Some(LogRequest::Create { header, .. }) if header.nonce == fresh) {
            world.writers[writer].drawn += 1;
        }
        if unknown && self.broken == Broken::ForgetsUnknown {
            world.writers[writer].other = world.writers[writer].append.is_some();
        }
        world.judge(writer);
    }

    fn trim(&self, world: &mut World, trim: usize) -> Option<()> {
        let next = match world.trims[trim].clone() {
            Trim::Marked { .. } if world.end() == 0 => Trim::Done,
            Trim::Marked { marker } => Trim::Listed { marker, end: world.end() },
            Trim::HalfListed { marker, page } if !self.counts(world, page) => {
                Trim::Marked { marker }
            }
            Trim::HalfListed { marker, page } => {
                let listed = world.objects.range(..=page.last).next_back();
                Trim::Listed { marker, end: listed.map_or(0, |(number, _)| *number) }
            }
            Trim::Listed { end: 0, .. } => Trim::Done,
            Trim::Listed { marker, end } => match world.objects.get(&end) {
                Some(header) if header.is_fence() => Trim::Listed { marker, end: end - 1 },
                // The newest object is a fence, and this number below the fence is free. So
                // continue with the next lower number.
                None if world.objects.values().next_back().is_some_and(Header::is_fence) => {
                    Trim::Listed { marker, end: end - 1 }
                }
                None => Trim::Done,
                Some(header) => match Sweep::new(u64::MAX, end, header, marker) {
                    Some(sweep) => Trim::Chained { sweep, end },
                    None => Trim::Done,
                },
            },
            Trim::Chained { mut sweep, end } => match sweep.next_claim() {
                Some(number) => {
                    let header = world.objects.get(&number);
                    world.require("kept", header.is_some());
                    let header = *world.objects.get(&number)?;
                    let chained = sweep.handle_claim(&header);
                    world.require("kept", chained);
                    Trim::Chained { sweep, end }
                }
                None if sweep.is_empty() && self.broken != Broken::TrimsNewest => Trim::Done,
                None => {
                    if self.broken != Broken::RaisesFloorLast {
                        world.marker = world.marker.raised(sweep.cut());
                    }
                    Trim::Deleting { sweep, end }
                }
            },
            Trim::Deleting { sweep, .. } => {
                world.marker = world.marker.swept(sweep.cut());
                Trim::Done
            }
            Trim::Done => return None,
        };
        world.trims[trim] = next;
        Some(())
    }

    fn read(&self, world: &mut World, number: u64) {
        let Some(header) = world.objects.get(&number).copied() else { return };
        match world.reader {
            Reader::FloorRead(floor) => yields(world, number, header, floor),
            _ if self.broken == Broken::ReadsWithoutFloor => yields(world, number, header, 0),
            _ => world.reader = Reader::HasRead(number, header),
        }
    }

    fn read_floor(&self, world: &mut World) {
        match world.reader {
            Reader::HasRead(number, header) => {
                let floor = world.marker.floor;
                yields(world, number, header, floor);
            }
            _ => world.reader = Reader::FloorRead(world.marker.floor),
        }
    }
}

/// Lets the reader return the entry if its number is at least `floor`. No entry below the floor is
/// valid. Checks that the entry is the first object at this number.
fn yields(world: &mut World, number: u64, header: Header, floor: u64) {
    if floor <= number {
        let holds = world.first.get(&number) == Some(&header);
        world.require("read", holds);
    }
    world.left.reads -= 1;
    world.reader = Reader::Idle;
}

/// Draws an unused nonce.
fn draw(world: &mut World, writer: usize) -> Nonce {
    let it = &mut world.writers[writer];
    it.drawn += 1;
    nonce(writer, it.drawn)
}

fn nonce(writer: usize, drawn: u8) -> Nonce {
    Nonce::from_bits(writer as u128 * 1_000 + u128::from(drawn))
}
