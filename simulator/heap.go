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

// sink puts an item where it belongs below a free place.
func (q eventHeap) sink(i int, x heapItem) {
	n := len(q)
	for {
		c := 4*i + 1
		if c >= n {
			break
		}
		least, at := c, q[c].at
		for k, y := range q[c+1 : min(c+4, n)] {
			if y.at < at {
				least, at = c+1+k, y.at
			}
		}
		if at >= x.at {
			break
		}
		q[i] = q[least]
		i = least
	}
	q[i] = x
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
