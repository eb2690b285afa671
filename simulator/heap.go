package simulator

import "time"

// heapItem is an instant in a running job's life. An item is stale, and
// skipped, when the job's next event is another by now.
type heapItem struct {
	at time.Duration
	id ID
}

// eventHeap is a four-way heap in order of instants. Items of one instant are in
// no order: happen takes them out together and sorts them.
type eventHeap []heapItem

func (h *eventHeap) push(x heapItem) {
	q := append(*h, x)
	i := len(q) - 1
	for i > 0 {
		up := (i - 1) / 4
		if x.at >= q[up].at {
			break
		}
		q[i] = q[up]
		i = up
	}
	q[i] = x
	*h = q
}

func (h *eventHeap) pop() heapItem {
	q := *h
	top := q[0]
	n := len(q) - 1
	x := q[n]
	*h = q[:n]
	if n > 0 {
		q[:n].sink(0, x)
	}
	return top
}

// rebuild makes a heap of items in any order.
func (h eventHeap) rebuild() {
	for i := (len(h) - 2) / 4; i >= 0 && len(h) > 1; i-- {
		h.sink(i, h[i])
	}
}

// sink puts an item where it belongs below a free place. Which of four items is the
// least is unpredictable, so it is found without branches.
func (q eventHeap) sink(i int, x heapItem) {
	for {
		c := 4*i + 1
		if c+4 > len(q) {
			break
		}
		k := q[c : c+4 : c+4]
		a, at := pick(0, k[0].at, 1, k[1].at)
		b, bt := pick(2, k[2].at, 3, k[3].at)
		a, at = pick(a, at, b, bt)
		if at >= x.at {
			q[i] = x
			return
		}
		q[i] = k[a&3]
		i = c + a
	}
	if c := 4*i + 1; c < len(q) { // the last have fewer below them
		least := c
		for k := c + 1; k < len(q); k++ {
			if q[k].at < q[least].at {
				least = k
			}
		}
		if q[least].at < x.at {
			q[i] = q[least]
			i = least
		}
	}
	q[i] = x
}

// pick is the index and the instant of the earlier of two, the first if they are
// equal.
func pick(a int, at time.Duration, b int, bt time.Duration) (int, time.Duration) {
	second := 0
	if bt < at {
		second = 1
	}
	return a ^ (a^b)&-second, at ^ (at^bt)&-time.Duration(second)
}

// peek is the instant of the first item that is not stale, or never.
func (h *eventHeap) peek(jobs []job) time.Duration {
	for len(*h) > 0 {
		top := (*h)[0]
		if jobs[top.id].next == top.at {
			return top.at
		}
		h.pop()
	}
	return never
}
