package nodetest

import (
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

func op(kind Kind, from, revision int64, hash string, call, end int) Op {
	return Op{Kind: kind, From: from, Offer: Offer{revision, hash}, Call: time.Duration(call) * ms,
		Return: time.Duration(end) * ms}
}

// TestHistories: the checker accepts what the promises allow and finds each way of breaking one.
func TestHistories(t *testing.T) {
	first := Offer{1, "a"}
	made := func(revision int64, hash, token string) Made {
		return Made{Offer: Offer{revision, hash}, Token: token, Offered: true}
	}
	list := []Made{made(1, "a", ""), made(2, "b", "x")}
	asked := func(h *History, from int64, revision int64) {
		h.Asks(1, "x", from, 10*ms)
		h.Answered("x", revision, 20*ms)
	}
	for _, c := range []struct {
		name  string
		stale time.Duration
		list  []Made
		play  func(h *History)
		want  string // empty for no violation
	}{
		{"a compare-and-set and reads", 0, list, func(h *History) {
			h.Add(op(Read, 0, 1, "a", 5, 15))
			asked(h, 1, 2)
			h.Add(op(Read, 0, 2, "b", 21, 22))
			h.Add(op(Conflict, 1, 0, "", 21, 30))
		}, ""},
		{"a request without an answer that took effect late", 0, list, func(h *History) {
			h.Asks(1, "x", 1, 10*ms)
			h.Add(op(Read, 0, 1, "a", 30, 31))
			h.Add(op(Read, 0, 2, "b", 40, 41))
		}, ""},
		{"a request without an answer that took none", 0, list[:1], func(h *History) {
			h.Asks(1, "x", 1, 10*ms)
			h.Add(op(Read, 0, 1, "a", 30, 31))
		}, ""},
		{"a revision of the service's own", 0, []Made{list[0], made(2, "b", "")}, func(h *History) {
			h.Add(op(Read, 0, 1, "a", 5, 6))
			h.Watched(Offer{2, "b"}, 9*ms)
			h.Add(op(Read, 0, 2, "b", 10, 11))
		}, ""},
		{"a read as stale as allowed", 10 * ms, list, func(h *History) {
			asked(h, 1, 2)
			h.Add(op(Read, 0, 1, "a", 25, 26))
		}, ""},
		{"a stale read", 0, list, func(h *History) {
			asked(h, 1, 2)
			h.Add(op(Read, 0, 1, "a", 25, 26))
		}, "no order"},
		{"a read that is too stale", 4 * ms, list, func(h *History) {
			asked(h, 1, 2)
			h.Add(op(Read, 0, 1, "a", 25, 26))
		}, "no order"},
		{"a stale read after a watch saw more", 0, []Made{list[0], made(2, "b", "")}, func(h *History) {
			h.Watched(Offer{2, "b"}, 9*ms)
			h.Add(op(Read, 0, 1, "a", 10, 11))
		}, "no order"},
		{"a copy as old as allowed", 0, list, func(h *History) {
			h.Old(Offer{1, "a"}, 24*ms, 5*ms)
			asked(h, 1, 2)
			h.Old(Offer{2, "b"}, 15*ms, 5*ms) // before anybody has an answer
			h.Add(op(Read, 0, 1, "a", 16, 17))
		}, ""},
		{"a copy that is older", 0, list, func(h *History) {
			h.Old(Offer{1, "a"}, 26*ms, 5*ms)
			asked(h, 1, 2)
		}, "2 was on offer 6ms before, more than 5ms"},
		{"a copy that is older than a watch", 0, []Made{list[0], made(2, "b", "")}, func(h *History) {
			h.Watched(Offer{2, "b"}, 9*ms)
			h.Old(Offer{1, "a"}, 30*ms, 20*ms)
		}, "more than 20ms"},
		{"a copy of another content", 0, list, func(h *History) {
			asked(h, 1, 2)
			h.Add(op(Read, 0, 2, "b", 21, 22))
			h.Old(Offer{2, "other"}, 26*ms, 50*ms)
		}, "has content"},
		{"an acknowledged request that is lost", 0, list[:1], func(h *History) { asked(h, 1, 0) }, "made no revision"},
		{"a revision that is gone", 0, list[:1], func(h *History) { h.Add(op(Read, 0, 2, "b", 5, 6)) }, "not listed"},
		{"a request that took effect twice", 0, append(list[:2:2], made(3, "b", "x")),
			func(h *History) { asked(h, 1, 2) }, "made revisions 2 and 3"},
		{"two leaders that give one revision to two", 0, list, func(h *History) {
			asked(h, 1, 2)
			h.Add(op(Read, 0, 2, "other", 21, 22))
		}, "has content"},
		{"two leaders that both replace revision 1", 0, append(list[:2:2], made(3, "c", "y")), func(h *History) {
			asked(h, 1, 2)
			h.Asks(2, "y", 1, 10*ms)
			h.Answered("y", 3, 20*ms)
		}, "no order"},
		{"a refusal without a cause", 0, list[:1], func(h *History) {
			h.Asks(1, "x", 1, 10*ms)
			h.Refused("x", 20*ms)
		}, "no order"},
		{"a refusal of a request that took effect", 0, list, func(h *History) {
			h.Asks(1, "x", 7, 10*ms)
			h.Refused("x", 20*ms)
		}, "was refused and made revision 2"},
		{"a change that is undone", 0, list, func(h *History) {
			asked(h, 1, 2)
			h.Add(op(Read, 0, 2, "b", 21, 22))
			h.Add(op(Read, 0, 1, "a", 23, 24))
		}, "no order"},
		{"an answer of another request", 0, append(list[:2:2], made(3, "c", "")), func(h *History) { asked(h, 1, 3) },
			"answered with 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var wrong Violations
			h := NewHistory("s", &wrong)
			c.play(h)
			h.Check(first, 0, c.stale, c.list)
			got, n := wrong.Take()
			if text := strings.Join(got, "; "); (n > 0) != (c.want != "") || !strings.Contains(text, c.want) {
				t.Errorf("%d violations: %q, want %q", n, text, c.want)
			}
		})
	}
}

// TestEvents: the count finds events that are lost, stored twice or never sent, in answers and in a store.
func TestEvents(t *testing.T) {
	for _, c := range []struct {
		name   string
		again  bool
		answer []Answer // to the one batch of two events, in order
		stored []string
		want   string
	}{
		{"once", false, []Answer{{Stored: 2}}, []string{"0-0", "0-1"}, ""},
		{"sent again", false, []Answer{{Stored: 2}, {Duplicate: 2}}, []string{"0-1", "0-0"}, ""},
		{"stored without an answer", true, []Answer{{Duplicate: 2}}, []string{"0-0", "0-1"}, ""},
		{"never acknowledged", false, nil, []string{"0-0"}, ""},
		{"lost", false, []Answer{{Stored: 2}}, []string{"0-0"}, "1 acknowledged events are lost"},
		{"lost and stored again", false, []Answer{{Stored: 2}, {Stored: 1, Duplicate: 1}}, []string{"0-0", "0-1"},
			"when it was sent again"},
		{"twice", false, []Answer{{Stored: 2}}, []string{"0-0", "0-1", "0-1"}, "1 are stored twice"},
		{"twice without an acknowledgement", false, nil, []string{"0-1", "0-1"}, "1 are stored twice"},
		{"known at once", false, []Answer{{Stored: 1, Duplicate: 1}}, []string{"0-0", "0-1"}, "were known"},
		{"an answer short of one", false, []Answer{{Stored: 1}}, []string{"0-0", "0-1"}, "was answered with"},
		{"of no client", false, nil, []string{"7-0"}, "no client sent"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var wrong Violations
			e := NewEvents(&wrong)
			b := e.Batch(2)
			for i, a := range c.answer {
				e.Answered(b, a, c.again || i > 0)
			}
			_, _, err := e.Check("the store", func(each func(string) error) error {
				for _, id := range c.stored {
					if err := each(id); err != nil {
						return err
					}
				}
				return nil
			})
			all, _ := wrong.Take()
			text := strings.Join(all, "; ")
			if err != nil {
				text += err.Error()
			}
			if (text != "") != (c.want != "") || !strings.Contains(text, c.want) {
				t.Errorf("%q, want %q", text, c.want)
			}
		})
	}
}

// TestWatch: a watch that repeats a revision or goes back is found.
func TestWatch(t *testing.T) {
	for _, c := range []struct {
		revisions []int64
		n         int
	}{{[]int64{1, 2, 5}, 0}, {[]int64{1, 2, 2}, 1}, {[]int64{3, 2, 4}, 1}} {
		var wrong Violations
		w := NewWatch("w", &wrong)
		for _, r := range c.revisions {
			w.Sees(r)
		}
		if _, n := wrong.Take(); n != c.n || w.Last() != c.revisions[2] {
			t.Errorf("%v: %d violations, last %d", c.revisions, n, w.Last())
		}
	}
}
