//! Places that callers share: which of them is given up when there is none left.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap, HashMap},
};

use foldhash::fast::RandomState;
use wharf_model::Caller;

/// How many places are looked at to find the one that was idle for longest, and how many more to find one that is idle.
/// More could be in use than there is time to look at; those that were looked at are the last to be looked at again.
const MAX_PROBES: usize = 512;

/// What a place is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotUse {
    /// It was given back.
    Gone,
    /// A call or a stream is under way.
    Busy,
    /// Nothing has happened since this moment, in milliseconds.
    Idle(u64),
}

/// Places of one kind, such as sessions or connections, each held by a caller and worth so many units of a whole.
///
/// One caller may have all of them while no other wants one. When none is left, a place of the caller that holds most
/// is given up, which may be the caller that wants one more: the place that was idle for longest. Of a caller that
/// holds more than half of the whole even one in use is given up, so that there is always a place for a newcomer.
#[derive(Debug)]
pub(crate) struct SlotTable<T> {
    most: usize,
    used: usize,
    shares: HashMap<Caller, CallerShare<T>, RandomState>,
    /// The callers, by how much they hold.
    ranking: BTreeSet<(usize, Caller)>,
}

#[derive(Debug)]
struct CallerShare<T> {
    held: usize,
    slots: usize,
    /// Each place with a moment before which it was not idle, and perhaps places that were given back. Where places
    /// are used costs nothing this way: the moments are put right when somebody looks for one to give up.
    heap: BinaryHeap<Reverse<SlotEntry<T>>>,
}

#[derive(Debug)]
struct SlotEntry<T> {
    since: u64,
    item: T,
}

impl<T> Ord for SlotEntry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.since.cmp(&other.since)
    }
}

impl<T> PartialOrd for SlotEntry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for SlotEntry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for SlotEntry<T> {}

impl<T> SlotTable<T> {
    /// Places worth `most` units.
    pub(crate) fn new(most: usize) -> Self {
        SlotTable { most, used: 0, shares: HashMap::default(), ranking: BTreeSet::new() }
    }

    /// Whether there is a place for one that is worth so many units.
    pub(crate) fn has_room(&self, units: usize) -> bool {
        self.used.saturating_add(units) <= self.most
    }

    /// Notes that `caller` has a place from now on.
    pub(crate) fn add(&mut self, caller: &Caller, units: usize, now: u64, item: T) {
        self.adjust(caller, |held| held + units);
        self.used += units;
        let entry = SlotEntry { since: now, item };
        if let Some(share) = self.shares.get_mut(caller) {
            share.slots += 1;
            share.heap.push(Reverse(entry));
        }
    }

    /// Notes that a place of `caller` was given back; `is_gone` tells which of its places were.
    pub(crate) fn remove(&mut self, caller: &Caller, units: usize, is_gone: impl Fn(&T) -> bool) {
        self.adjust(caller, |held| held.saturating_sub(units));
        self.used = self.used.saturating_sub(units);
        let Some(share) = self.shares.get_mut(caller) else { return };
        share.slots = share.slots.saturating_sub(1);
        if share.slots == 0 {
            self.ranking.remove(&(share.held, caller.clone()));
            self.shares.remove(caller);
        } else if share.heap.len() > 2 * share.slots + 16 {
            share.heap.retain(|Reverse(entry)| !is_gone(&entry.item));
        }
    }

    /// What to give up so that `caller` has one more place. None if `caller` must do without one.
    pub(crate) fn victim(
        &mut self,
        caller: &Caller,
        now: u64,
        slot_use: impl Fn(&T) -> SlotUse,
    ) -> Option<T> {
        let (most, largest) = self.ranking.last()?.clone();
        let own = self.shares.get(caller).map_or(0, |share| share.held);
        if own >= most {
            return self.longest_idle(caller, now, &slot_use);
        }
        let idle = self.longest_idle(&largest, now, &slot_use);
        if idle.is_some() || most > self.most / 2 {
            return idle.or_else(|| self.any_slot(&largest, &slot_use));
        }
        let larger = self.ranking.range((own + 1, Caller::Local)..).rev().skip(1).take(8);
        let larger: Vec<_> = larger.map(|(_, caller)| caller.clone()).collect();
        larger.iter().chain([caller]).find_map(|it| self.longest_idle(it, now, &slot_use))
    }

    fn adjust(&mut self, caller: &Caller, change: impl FnOnce(usize) -> usize) {
        if !self.shares.contains_key(caller) {
            let share = CallerShare { held: 0, slots: 0, heap: BinaryHeap::new() };
            self.shares.insert(caller.clone(), share);
        }
        if let Some(share) = self.shares.get_mut(caller) {
            let before = share.held;
            share.held = change(before);
            self.ranking.remove(&(before, caller.clone()));
            self.ranking.insert((share.held, caller.clone()));
        }
    }

    /// The place of this caller that was idle for longest, if one is idle.
    fn longest_idle(
        &mut self,
        caller: &Caller,
        now: u64,
        slot_use: &impl Fn(&T) -> SlotUse,
    ) -> Option<T> {
        let heap = &mut self.shares.get_mut(caller)?.heap;
        for probes in 0..2 * MAX_PROBES.min(heap.len()) {
            let Reverse(mut entry) = heap.pop()?;
            let since = match slot_use(&entry.item) {
                SlotUse::Gone => continue,
                SlotUse::Idle(since) if since <= entry.since || probes >= MAX_PROBES => {
                    return Some(entry.item);
                }
                SlotUse::Idle(since) => since,
                // Behind all that are idle.
                SlotUse::Busy => now.max(entry.since + 1),
            };
            entry.since = since;
            heap.push(Reverse(entry));
        }
        None
    }

    /// A place of this caller, in use or not.
    fn any_slot(&mut self, caller: &Caller, slot_use: &impl Fn(&T) -> SlotUse) -> Option<T> {
        let heap = &mut self.shares.get_mut(caller)?.heap;
        loop {
            let Reverse(entry) = heap.pop()?;
            if slot_use(&entry.item) != SlotUse::Gone {
                return Some(entry.item);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, collections::HashMap};

    use super::*;

    /// Places by number, with their use.
    struct TestTable {
        slots: SlotTable<u32>,
        uses: RefCell<HashMap<u32, (Caller, SlotUse)>>,
        now: u64,
    }

    fn caller(name: &str) -> Caller {
        Caller::Principal(name.into())
    }

    impl TestTable {
        fn new(most: usize) -> Self {
            TestTable { slots: SlotTable::new(most), uses: RefCell::default(), now: 0 }
        }

        fn slot_use(&self) -> impl Fn(&u32) -> SlotUse + use<> {
            let uses = self.uses.borrow().clone();
            move |number| uses.get(number).map_or(SlotUse::Gone, |(_, it)| *it)
        }

        /// Takes a place. Which one was given up for it, if there is a place at all.
        fn take(&mut self, name: &str, number: u32) -> Option<Option<u32>> {
            self.now += 1;
            let (slot_use, now) = (self.slot_use(), self.now);
            let mut given_up = None;
            if !self.slots.has_room(1) {
                given_up = Some(self.slots.victim(&caller(name), now, slot_use)?);
                self.remove(given_up.unwrap());
            }
            self.uses.borrow_mut().insert(number, (caller(name), SlotUse::Idle(now)));
            self.slots.add(&caller(name), 1, now, number);
            Some(given_up)
        }

        fn remove(&mut self, number: u32) {
            let (owner, _) = self.uses.borrow_mut().remove(&number).unwrap();
            let slot_use = self.slot_use();
            self.slots.remove(&owner, 1, |number| slot_use(number) == SlotUse::Gone);
        }

        fn set(&mut self, number: u32, to: SlotUse) {
            self.uses.borrow_mut().get_mut(&number).unwrap().1 = to;
        }
    }

    #[test]
    fn a_caller_gives_up_its_own_and_a_newcomer_takes_from_the_largest() {
        let mut table = TestTable::new(10);
        assert_eq!(table.take("alice", 100), Some(None));
        for number in 0..9 {
            assert_eq!(table.take("mallory", number), Some(None));
        }
        table.set(0, SlotUse::Idle(50));
        table.set(1, SlotUse::Busy);
        table.now = 60;
        // The longest idle of its own, not alice's, which is older; nor the one that was used, nor the busy one.
        let given_up: Vec<_> =
            (9..17).map(|number| table.take("mallory", number).unwrap()).collect();
        assert_eq!(given_up, [2, 3, 4, 5, 6, 7, 8, 0].map(Some));
        assert_eq!(table.take("bob", 200), Some(Some(9)));
        assert_eq!(table.take("alice", 101), Some(Some(10)));
        assert_eq!(table.slots.used, 10);
    }

    #[test]
    fn a_newcomer_finds_a_place_although_all_are_busy() {
        let mut table = TestTable::new(10);
        for number in 0..10 {
            table.take("mallory", number);
            table.set(number, SlotUse::Busy);
        }
        assert_eq!(table.take("mallory", 10), None);
        assert!(table.take("alice", 100).is_some());
        table.set(100, SlotUse::Busy);
        for number in 101..105 {
            assert!(table.take("alice", number).is_some());
            table.set(number, SlotUse::Busy);
        }
        // Each has half now, and neither loses what is in use.
        assert_eq!((table.take("alice", 105), table.take("bob", 200)), (None, None));
        table.set(103, SlotUse::Idle(0));
        assert_eq!(table.take("bob", 200), Some(Some(103)));
    }

    #[test]
    fn one_in_use_among_many_idle_ones_keeps_no_caller_out() {
        let count = 2 * MAX_PROBES as u32;
        let mut table = TestTable::new(count as usize);
        for number in 0..count {
            table.take("alice", number);
        }
        // All were used since, and the last that is looked at by its age is in use.
        (0..count)
            .for_each(|number| table.set(number, SlotUse::Idle(u64::from(2 * count + number))));
        table.set(MAX_PROBES as u32 - 1, SlotUse::Busy);
        assert!(table.take("alice", count).is_some());
    }

    #[test]
    fn what_is_given_back_leaves_nothing_behind() {
        let mut table = TestTable::new(10);
        table.take("alice", 0);
        for number in 1..1000 {
            table.take("alice", number);
            table.remove(number);
        }
        assert!(table.slots.shares[&caller("alice")].heap.len() < 20);
        table.remove(0);
        assert!(table.slots.shares.is_empty() && table.slots.ranking.is_empty());
        assert_eq!(table.slots.used, 0);
    }
}
