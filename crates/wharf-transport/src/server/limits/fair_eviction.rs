//! Places that callers share: which of them is given up when there is none left.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap, HashMap},
};

use foldhash::fast::RandomState;
use wharf_model::Caller;

/// How many places are looked at to find the one that was idle for longest, and how many more to find one that is idle.
/// More could be in use than there is time to look at; those that were looked at are the last to be looked at again.
const LOOKS: usize = 512;

/// What a place is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
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
pub(crate) struct Places<T> {
    most: usize,
    used: usize,
    shares: HashMap<Caller, Share<T>, RandomState>,
    /// The callers, by how much they hold.
    ranking: BTreeSet<(usize, Caller)>,
}

#[derive(Debug)]
struct Share<T> {
    held: usize,
    places: usize,
    /// Each place with a moment before which it was not idle, and perhaps places that were given back. Where places
    /// are used costs nothing this way: the moments are put right when somebody looks for one to give up.
    order: BinaryHeap<Reverse<Entry<T>>>,
}

#[derive(Debug)]
struct Entry<T> {
    since: u64,
    item: T,
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.since.cmp(&other.since)
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Entry<T> {}

impl<T> Places<T> {
    /// Places worth `most` units.
    pub(crate) fn new(most: usize) -> Self {
        Places { most, used: 0, shares: HashMap::default(), ranking: BTreeSet::new() }
    }

    /// Whether there is a place for one that is worth so many units.
    pub(crate) fn has_room(&self, units: usize) -> bool {
        self.used.saturating_add(units) <= self.most
    }

    /// Notes that `caller` has a place from now on.
    pub(crate) fn add(&mut self, caller: &Caller, units: usize, now: u64, item: T) {
        self.count(caller, |held| held + units);
        self.used += units;
        let entry = Entry { since: now, item };
        if let Some(share) = self.shares.get_mut(caller) {
            share.places += 1;
            share.order.push(Reverse(entry));
        }
    }

    /// Notes that a place of `caller` was given back; `is_gone` tells which of its places were.
    pub(crate) fn remove(&mut self, caller: &Caller, units: usize, is_gone: impl Fn(&T) -> bool) {
        self.count(caller, |held| held.saturating_sub(units));
        self.used = self.used.saturating_sub(units);
        let Some(share) = self.shares.get_mut(caller) else { return };
        share.places = share.places.saturating_sub(1);
        if share.places == 0 {
            self.ranking.remove(&(share.held, caller.clone()));
            self.shares.remove(caller);
        } else if share.order.len() > 2 * share.places + 16 {
            share.order.retain(|Reverse(entry)| !is_gone(&entry.item));
        }
    }

    /// What to give up so that `caller` has one more place. None if `caller` must do without one.
    pub(crate) fn victim(
        &mut self,
        caller: &Caller,
        now: u64,
        look: impl Fn(&T) -> Use,
    ) -> Option<T> {
        let (most, largest) = self.ranking.last()?.clone();
        let own = self.shares.get(caller).map_or(0, |share| share.held);
        if own >= most {
            return self.longest_idle(caller, now, &look);
        }
        let idle = self.longest_idle(&largest, now, &look);
        if idle.is_some() || most > self.most / 2 {
            return idle.or_else(|| self.first(&largest, &look));
        }
        let larger = self.ranking.range((own + 1, Caller::Local)..).rev().skip(1).take(8);
        let larger: Vec<_> = larger.map(|(_, caller)| caller.clone()).collect();
        larger.iter().chain([caller]).find_map(|it| self.longest_idle(it, now, &look))
    }

    fn count(&mut self, caller: &Caller, change: impl FnOnce(usize) -> usize) {
        if !self.shares.contains_key(caller) {
            let share = Share { held: 0, places: 0, order: BinaryHeap::new() };
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
    fn longest_idle(&mut self, caller: &Caller, now: u64, look: &impl Fn(&T) -> Use) -> Option<T> {
        let order = &mut self.shares.get_mut(caller)?.order;
        for looks in 0..2 * LOOKS.min(order.len()) {
            let Reverse(mut entry) = order.pop()?;
            let since = match look(&entry.item) {
                Use::Gone => continue,
                Use::Idle(since) if since <= entry.since || looks >= LOOKS => {
                    return Some(entry.item);
                }
                Use::Idle(since) => since,
                // Behind all that are idle.
                Use::Busy => now.max(entry.since + 1),
            };
            entry.since = since;
            order.push(Reverse(entry));
        }
        None
    }

    /// A place of this caller, in use or not.
    fn first(&mut self, caller: &Caller, look: &impl Fn(&T) -> Use) -> Option<T> {
        let order = &mut self.shares.get_mut(caller)?.order;
        loop {
            let Reverse(entry) = order.pop()?;
            if look(&entry.item) != Use::Gone {
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
    struct Bed {
        places: Places<u32>,
        uses: RefCell<HashMap<u32, (Caller, Use)>>,
        now: u64,
    }

    fn caller(name: &str) -> Caller {
        Caller::Principal(name.into())
    }

    impl Bed {
        fn new(most: usize) -> Self {
            Bed { places: Places::new(most), uses: RefCell::default(), now: 0 }
        }

        fn look(&self) -> impl Fn(&u32) -> Use + use<> {
            let uses = self.uses.borrow().clone();
            move |number| uses.get(number).map_or(Use::Gone, |(_, it)| *it)
        }

        /// Takes a place. Which one was given up for it, if there is a place at all.
        fn take(&mut self, name: &str, number: u32) -> Option<Option<u32>> {
            self.now += 1;
            let (look, now) = (self.look(), self.now);
            let mut given_up = None;
            if !self.places.has_room(1) {
                given_up = Some(self.places.victim(&caller(name), now, look)?);
                self.leave(given_up.unwrap());
            }
            self.uses.borrow_mut().insert(number, (caller(name), Use::Idle(now)));
            self.places.add(&caller(name), 1, now, number);
            Some(given_up)
        }

        fn leave(&mut self, number: u32) {
            let (owner, _) = self.uses.borrow_mut().remove(&number).unwrap();
            let look = self.look();
            self.places.remove(&owner, 1, |number| look(number) == Use::Gone);
        }

        fn set(&mut self, number: u32, to: Use) {
            self.uses.borrow_mut().get_mut(&number).unwrap().1 = to;
        }
    }

    #[test]
    fn a_caller_gives_up_its_own_and_a_newcomer_takes_from_the_largest() {
        let mut bed = Bed::new(10);
        assert_eq!(bed.take("alice", 100), Some(None));
        for number in 0..9 {
            assert_eq!(bed.take("mallory", number), Some(None));
        }
        bed.set(0, Use::Idle(50));
        bed.set(1, Use::Busy);
        bed.now = 60;
        // The longest idle of its own, not alice's, which is older; nor the one that was used, nor the busy one.
        let given_up: Vec<_> = (9..17).map(|number| bed.take("mallory", number).unwrap()).collect();
        assert_eq!(given_up, [2, 3, 4, 5, 6, 7, 8, 0].map(Some));
        assert_eq!(bed.take("bob", 200), Some(Some(9)));
        assert_eq!(bed.take("alice", 101), Some(Some(10)));
        assert_eq!(bed.places.used, 10);
    }

    #[test]
    fn a_newcomer_finds_a_place_although_all_are_busy() {
        let mut bed = Bed::new(10);
        for number in 0..10 {
            bed.take("mallory", number);
            bed.set(number, Use::Busy);
        }
        assert_eq!(bed.take("mallory", 10), None);
        assert!(bed.take("alice", 100).is_some());
        bed.set(100, Use::Busy);
        for number in 101..105 {
            assert!(bed.take("alice", number).is_some());
            bed.set(number, Use::Busy);
        }
        // Each has half now, and neither loses what is in use.
        assert_eq!((bed.take("alice", 105), bed.take("bob", 200)), (None, None));
        bed.set(103, Use::Idle(0));
        assert_eq!(bed.take("bob", 200), Some(Some(103)));
    }

    #[test]
    fn one_in_use_among_many_idle_ones_keeps_no_caller_out() {
        let count = 2 * LOOKS as u32;
        let mut bed = Bed::new(count as usize);
        for number in 0..count {
            bed.take("alice", number);
        }
        // All were used since, and the last that is looked at by its age is in use.
        (0..count).for_each(|number| bed.set(number, Use::Idle(u64::from(2 * count + number))));
        bed.set(LOOKS as u32 - 1, Use::Busy);
        assert!(bed.take("alice", count).is_some());
    }

    #[test]
    fn what_is_given_back_leaves_nothing_behind() {
        let mut bed = Bed::new(10);
        bed.take("alice", 0);
        for number in 1..1000 {
            bed.take("alice", number);
            bed.leave(number);
        }
        assert!(bed.places.shares[&caller("alice")].order.len() < 20);
        bed.leave(0);
        assert!(bed.places.shares.is_empty() && bed.places.ranking.is_empty());
        assert_eq!(bed.places.used, 0);
    }
}
