package themis

import (
	"sort"

	"github.com/autosched/autosched/simulator"
)

// offer exchanges the jobs whose lease is over for those further behind.
func (p *policy) offer(plan *simulator.Plan) {
	room := p.s.Room()
	p.expire(room)
	if len(p.over) == 0 {
		return
	}
	p.choose(room)
	if len(p.start) > 0 { // otherwise nobody needs what could be taken
		plan.Exchange(p.stop, p.start)
	}
	p.settle()
}

// expire finds whose lease is over, in order, and lets the others keep what they
// have.
func (p *policy) expire(room *simulator.Room) {
	now := p.s.Now()
	over, held, ordered := p.over[:0], p.held[:0], 0
	for i := range p.running {
		x := &p.running[i]
		if x.id < 0 {
			continue
		}
		w := &p.widths[x.kind]
		if !w.on || x.until > now {
			room.Keep(x.id, p.s.JobHeld(x.id))
			held = append(held, *x)
			continue
		}
		ran := p.ran(x)
		total, rest := outlook(ran, x.told, w.length)
		base := rest - x.submit
		over = append(over, standing{key: float64(float64(now+base)/float64(total)) * w.share, base: base, total: total, id: x.id, kind: x.kind})
		if i < p.ordered {
			ordered++
		}
	}
	p.over, p.held = over, held
	p.arrange(over, ordered)
}

// choose decides who is to start and who is to stop. Jobs choose in order of
// their rho, but those cut off last; of those that wait only as many are looked
// at as find GPUs left.
func (p *policy) choose(room *simulator.Room) {
	p.stop, p.refused, p.start = p.stop[:0], p.refused[:0], p.start[:0]
	all := len(p.over) + p.enqueue(room.Left())
	first := all - int(p.fraction*float64(all))
	unseen := 0 // jobs in shut lanes
	for _, l := range p.shut {
		unseen += l.len()
	}
	r, cut := 0, false
	for len(p.heads) > 0 {
		l := p.heads[0]
		w := &l.list[l.next]
		before := r + len(p.start)
		switch {
		case r < len(p.over) && (cut || p.before(&p.over[r], w)):
			p.keep(room, r)
			r++
		case !cut && before+unseen >= first && before+p.passed(w) >= first:
			cut = true
		case room.Give(w.id, l.gpus):
			p.start = append(p.start, w.id)
			if l.next++; l.next == len(l.list) {
				p.heads = append(p.heads[:0], p.heads[1:]...)
				break
			}
			for i := 1; i < len(p.heads) && p.before(p.heads[i].first(), p.heads[i-1].first()); i++ {
				p.heads[i], p.heads[i-1] = p.heads[i-1], p.heads[i]
			}
		default: // nor will there be room for any other of them
			unseen += len(l.list) - l.next
			p.heads = append(p.heads[:0], p.heads[1:]...)
			p.shut = append(p.shut, l)
		}
	}
	for ; r < len(p.over); r++ {
		p.keep(room, r)
	}
}

// keep lets one whose lease is over have its GPUs if they are left.
func (p *policy) keep(room *simulator.Room, r int) {
	o := &p.over[r]
	if !room.Give(o.id, p.widths[o.kind].gpus) {
		p.stop, p.refused = append(p.stop, o.id), append(p.refused, r)
	}
}

// enqueue makes the lanes wait to be served, and returns how many jobs they are.
func (p *policy) enqueue(room int) (jobs int) {
	p.heads, p.shut = p.heads[:0], p.shut[:0]
	for i := range p.wait {
		l := &p.wait[i]
		l.next, l.behind = l.head, l.head
		switch {
		case l.len() == 0:
		case l.gpus > room:
			p.shut = append(p.shut, l)
		default:
			p.order(l)
			p.heads = append(p.heads, l)
			for k := len(p.heads) - 1; k > 0 && p.before(l.first(), p.heads[k-1].first()); k-- {
				p.heads[k], p.heads[k-1] = p.heads[k-1], l
			}
		}
		jobs += l.len()
	}
	return jobs
}

// passed is how many of those in shut lanes who have not been served come before
// a job. It is asked in order of these.
func (p *policy) passed(w *standing) (n int) {
	for _, l := range p.shut {
		p.order(l)
		l.behind = max(l.behind, l.next)
		rest := l.list[l.behind:]
		l.behind += sort.Search(len(rest), func(i int) bool { return p.before(w, &rest[i]) })
		n += l.behind - l.next
	}
	return n
}

// settle takes in who was started and stopped.
func (p *policy) settle() {
	goOn, refused := p.goOn[:0], p.refused
	for i := range p.over {
		j := p.over[i].id
		if len(refused) > 0 && refused[0] == i {
			if refused = refused[1:]; !p.s.JobRunning(j) {
				continue
			}
		}
		goOn = append(goOn, p.running[p.records[j].at])
	}
	p.ordered = len(goOn)
	p.goOn = append(goOn, p.held...)
	p.running, p.goOn = p.goOn, p.running
	for i := range p.running {
		p.records[p.running[i].id].at = int32(i)
	}
	if len(p.start) == 0 {
		return
	}
	for i := range p.wait {
		l := &p.wait[i]
		to := l.next
		for k := l.next - 1; k >= l.head; k-- {
			if j := l.list[k].id; p.s.JobRunning(j) {
				p.runs(j)
			} else {
				to--
				l.list[to] = l.list[k]
			}
		}
		l.lately -= to - l.head
		l.head = to
	}
	for _, j := range p.stop {
		if !p.s.JobRunning(j) {
			p.widths[p.records[j].kind].running--
			p.waits(j)
			p.reopen()
		}
	}
}
