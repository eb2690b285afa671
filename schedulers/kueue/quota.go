package kueue

// Amounts of quota, in GPUs. pkg/cache/scheduler/resource_node.go.

// use adds to the usage of a queue: beyond its local quota, of the cohort's.
func (p *policy) use(q *queue, gpus int) {
	c := &p.cohorts[q.cohort]
	c.used -= max(0, q.used-q.local)
	q.used += gpus
	c.used += max(0, q.used-q.local)
}

// available is the quota that a queue can still use. It is negative where more is in use than there is.
func (p *policy) available(q *queue) int {
	c := &p.cohorts[q.cohort]
	if c.alone {
		return q.Nominal - q.used
	}
	of := c.lent - c.used
	if q.BorrowingLimit.Set {
		of = min(of, q.Nominal-q.local-max(0, q.used-q.local)+q.BorrowingLimit.GPUs)
	}
	return max(0, q.local-q.used) + of
}

// most is the quota that a queue could use if nothing else did.
func (p *policy) most(q *queue) int {
	c := &p.cohorts[q.cohort]
	switch {
	case c.alone:
		return q.Nominal
	case q.BorrowingLimit.Set:
		return min(q.Nominal+q.BorrowingLimit.GPUs, q.local+c.lent)
	}
	return q.local + c.lent
}

// borrows reports whether a queue that uses more GPUs borrows.
func (q *queue) borrows(more int) bool { return q.used+more > q.Nominal }
