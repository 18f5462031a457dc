//! Fair eviction: selects the slot to free when callers have used up all slots.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap, HashMap},
};

use foldhash::fast::RandomState;
use wharf_model::Caller;

/// Maximum number of slots that are probed for the longest idle one, and again for any idle one.
/// More slots could be busy than there is time to probe; probed slots move to the end of the queue.
const MAX_PROBES: usize = 512;

/// State of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotUse {
    /// It was removed.
    Gone,
    /// A call or a stream is in flight.
    Busy,
    /// Idle since this time, in milliseconds.
    Idle(u64),
}

/// Slots of one kind, such as sessions, connections or ended streams. Each belongs to a caller and has a size
/// in units.
///
/// A single caller may use all slots while no other caller needs one. When none is left, the
/// longest idle slot of the caller with the most units is evicted; this may be the requesting
/// caller itself. If that caller has more than half of all units, even a busy slot is evicted, so
/// that a new caller always gets a slot.
#[derive(Debug)]
pub(crate) struct SlotTable<T> {
    most: usize,
    used: usize,
    shares: HashMap<Caller, CallerShare<T>, RandomState>,
    /// Callers by their number of units.
    ranking: BTreeSet<(usize, Caller)>,
}

#[derive(Debug)]
struct CallerShare<T> {
    held: usize,
    slots: usize,
    /// Slots with a lower bound of their idle time, possibly including removed slots. Using a slot
    /// therefore costs nothing; the times are corrected when a slot is to be evicted.
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

impl<T: Clone> SlotTable<T> {
    /// Creates a table of `most` units.
    pub(crate) fn new(most: usize) -> Self {
        SlotTable { most, used: 0, shares: HashMap::default(), ranking: BTreeSet::new() }
    }

    /// Number of units in use.
    #[cfg(feature = "http")]
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// True if there is room for this many units.
    pub(crate) fn has_room(&self, units: usize) -> bool {
        self.used.saturating_add(units) <= self.most
    }

    /// Adds a slot of `caller`.
    pub(crate) fn add(&mut self, caller: &Caller, units: usize, now: u64, item: T) {
        self.adjust(caller, |held| held + units);
        self.used += units;
        let entry = SlotEntry { since: now, item };
        if let Some(share) = self.shares.get_mut(caller) {
            share.slots += 1;
            share.heap.push(Reverse(entry));
        }
    }

    /// Removes a slot of `caller`; `is_gone` identifies removed slots.
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

    /// Changes the size of a slot of `caller`.
    #[cfg(feature = "http")]
    pub(crate) fn resize(&mut self, caller: &Caller, from: usize, to: usize) {
        self.adjust(caller, |held| held.saturating_sub(from) + to);
        self.used = self.used.saturating_sub(from) + to;
    }

    /// Slot to evict so that `caller` gets another one. `None` if `caller` must be refused. The slot
    /// stays in the table until it is removed.
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

    /// Slot to evict of the caller with the most units: its longest idle one, else a busy one. Where a slot in use
    /// may be evicted instead of refusing a new one. `spared` is not evicted while it is busy. The slot stays in the
    /// table until it is removed.
    #[cfg(feature = "http")]
    pub(crate) fn victim_of_largest(
        &mut self,
        spared: Option<&T>,
        now: u64,
        slot_use: impl Fn(&T) -> SlotUse,
    ) -> Option<T>
    where
        T: PartialEq,
    {
        let (_, largest) = self.ranking.last()?.clone();
        if let Some(idle) = self.longest_idle(&largest, now, &slot_use) {
            return Some(idle);
        }
        let first = self.any_slot(&largest, &slot_use)?;
        if spared != Some(&first) {
            return Some(first);
        }
        let spared = self.shares.get_mut(&largest)?.heap.pop()?;
        let next = self.any_slot(&largest, &slot_use);
        self.shares.get_mut(&largest)?.heap.push(spared);
        next
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

    /// Longest idle slot of this caller, if any is idle.
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
                    let item = entry.item.clone();
                    heap.push(Reverse(entry));
                    return Some(item);
                }
                SlotUse::Idle(since) => since,
                // Sorted behind all idle slots.
                SlotUse::Busy => now.max(entry.since + 1),
            };
            entry.since = since;
            heap.push(Reverse(entry));
        }
        None
    }

    /// Any slot of this caller, busy or idle.
    fn any_slot(&mut self, caller: &Caller, slot_use: &impl Fn(&T) -> SlotUse) -> Option<T> {
        let heap = &mut self.shares.get_mut(caller)?.heap;
        loop {
            let Reverse(entry) = heap.peek()?;
            if slot_use(&entry.item) != SlotUse::Gone {
                return Some(entry.item.clone());
            }
            heap.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::{Cell, RefCell},
        collections::HashMap,
    };

    use super::*;

    /// Slots by number, with their states.
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

        /// Takes a slot. Returns the evicted slot, if any; `None` if the caller is refused.
        fn take(&mut self, name: &str, number: u32) -> Option<Option<u32>> {
            self.now += 1;
            let (slot_use, now) = (self.slot_use(), self.now);
            let mut evicted = None;
            if !self.slots.has_room(1) {
                evicted = Some(self.slots.victim(&caller(name), now, slot_use)?);
                self.remove(evicted.unwrap());
            }
            self.uses.borrow_mut().insert(number, (caller(name), SlotUse::Idle(now)));
            self.slots.add(&caller(name), 1, now, number);
            Some(evicted)
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
    fn a_caller_loses_its_own_slot_and_a_new_caller_takes_from_the_largest() {
        let mut table = TestTable::new(10);
        assert_eq!(table.take("alice", 100), Some(None));
        for number in 0..9 {
            assert_eq!(table.take("mallory", number), Some(None));
        }
        table.set(0, SlotUse::Idle(50));
        table.set(1, SlotUse::Busy);
        table.now = 60;
        // Evicts the caller's longest idle slots. Skips alice's older slot, the recently used one
        // and the busy one.
        let evicted: Vec<_> =
            (9..17).map(|number| table.take("mallory", number).unwrap()).collect();
        assert_eq!(evicted, [2, 3, 4, 5, 6, 7, 8, 0].map(Some));
        assert_eq!(table.take("bob", 200), Some(Some(9)));
        assert_eq!(table.take("alice", 101), Some(Some(10)));
        assert_eq!(table.slots.used, 10);
    }

    #[test]
    fn a_new_caller_gets_a_slot_although_all_are_busy() {
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
        // Each caller has half now, and neither loses a busy slot.
        assert_eq!((table.take("alice", 105), table.take("bob", 200)), (None, None));
        table.set(103, SlotUse::Idle(0));
        assert_eq!(table.take("bob", 200), Some(Some(103)));
    }

    #[cfg(feature = "http")]
    #[test]
    fn the_largest_caller_loses_a_busy_slot_but_not_the_spared_one() {
        let mut table = TestTable::new(10);
        for number in 0..3 {
            table.take("mallory", number);
            table.set(number, SlotUse::Busy);
        }
        table.take("alice", 100);
        let victim = |table: &mut TestTable, spared| {
            let (slot_use, now) = (table.slot_use(), table.now);
            let victim = table.slots.victim_of_largest(Some(&spared), now, slot_use);
            victim.inspect(|number| table.remove(*number))
        };
        assert_eq!(victim(&mut table, 0), Some(1));
        table.set(2, SlotUse::Idle(0));
        assert_eq!(victim(&mut table, 2), Some(2));
        table.take("mallory", 3);
        table.set(3, SlotUse::Busy);
        assert_eq!(victim(&mut table, 0), Some(3));
        table.remove(100);
        assert_eq!(victim(&mut table, 0), None);
        assert_eq!(victim(&mut table, 1), Some(0));
    }

    #[test]
    fn a_busy_slot_among_many_idle_ones_does_not_block_eviction() {
        let count = 2 * MAX_PROBES as u32;
        let mut table = TestTable::new(count as usize);
        for number in 0..count {
            table.take("alice", number);
        }
        // All slots were used since, and the last one that is probed by its age is busy.
        (0..count)
            .for_each(|number| table.set(number, SlotUse::Idle(u64::from(2 * count + number))));
        table.set(MAX_PROBES as u32 - 1, SlotUse::Busy);
        assert!(table.take("alice", count).is_some());
    }

    #[test]
    fn eviction_probes_few_of_many_slots() {
        const COUNT: u64 = 10_000;
        let slot_uses: [fn(&u64) -> SlotUse; 3] = [
            |number| SlotUse::Idle(*number),
            // All slots were used since they were added.
            |number| SlotUse::Idle(2 * COUNT + number),
            |_| SlotUse::Busy,
        ];
        for (slot_use, most) in slot_uses.into_iter().zip([1, MAX_PROBES + 1, 2 * MAX_PROBES + 1]) {
            let mut slots = SlotTable::new(COUNT as usize);
            (0..COUNT).for_each(|number| slots.add(&caller("mallory"), 1, number, number));
            for name in ["mallory", "alice"] {
                let probes = Cell::new(0);
                let counted = |number: &u64| {
                    probes.set(probes.get() + 1);
                    slot_use(number)
                };
                let victim = slots.victim(&caller(name), 3 * COUNT, counted);
                assert_eq!(victim.is_some(), name == "alice" || slot_use(&0) != SlotUse::Busy);
                assert!((1..=most).contains(&probes.get()), "{name}: {} of {most}", probes.get());
            }
        }
    }

    #[test]
    fn removed_slots_leave_no_entries() {
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
