package server

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"path"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/autosched/autosched/controller"
)

// counters count what is not known from the service's state. Their labels are
// methods, codes and registered schedulers, so that no caller can make them grow.
type counters struct {
	mu     sync.Mutex
	calls  map[call]tally
	events map[string]*[4]int64 // by scheduler, in the order of eventResults
}

type call struct {
	method string
	code   codes.Code
}

type tally struct {
	n       int64
	seconds float64
}

var eventResults = [4]string{"accepted", "duplicate", "late", "rejected"}

func (c *counters) called(fullMethod string, began time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		c.calls = map[call]tally{}
	}
	at := call{path.Base(fullMethod), status.Code(err)}
	t := c.calls[at]
	t.n++
	t.seconds += time.Since(began).Seconds()
	c.calls[at] = t
}

func (c *counters) ingested(scheduler string, counts [4]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.events == nil {
		c.events = map[string]*[4]int64{}
	}
	sum := c.events[scheduler]
	if sum == nil {
		sum = &[4]int64{}
		c.events[scheduler] = sum
	}
	for i, n := range counts {
		sum[i] += n
	}
}

// Operations is what operators' tools ask over HTTP: /metrics in the text format
// of Prometheus, /healthz, which answers while the process does, and /readyz,
// which says no once the service is shutting down.
func (s *Server) Operations() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(s.metrics())
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		select {
		case <-s.draining:
			http.Error(w, "shutting down", http.StatusServiceUnavailable)
		default:
			fmt.Fprintln(w, "ok")
		}
	})
	return mux
}

// exposition is a page of metrics in the making.
type exposition struct{ bytes.Buffer }

func (e *exposition) metric(name, kind, help string) {
	fmt.Fprintf(e, "# HELP autosched_%s %s\n# TYPE autosched_%s %s\n", name, help, name, kind)
}

// sample adds a value; labels are pairs, whose values need no escaping.
func (e *exposition) sample(name string, value float64, labels ...string) {
	e.WriteString("autosched_" + name)
	for i := 0; i < len(labels); i += 2 {
		fmt.Fprintf(e, "%c%s=%q", "{,"[min(i, 1)], labels[i], labels[i+1])
	}
	if len(labels) > 0 {
		e.WriteByte('}')
	}
	e.WriteString(" " + strconv.FormatFloat(value, 'g', -1, 64) + "\n")
}

// metrics are all of them, always in the same order.
func (s *Server) metrics() []byte {
	var e exposition
	s.callMetrics(&e)
	s.schedulerMetrics(&e)
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	e.metric("goroutines", "gauge", "Goroutines of the process.")
	e.sample("goroutines", float64(runtime.NumGoroutine()))
	e.metric("heap_bytes", "gauge", "Bytes of live and unswept objects on the heap.")
	e.sample("heap_bytes", float64(mem.HeapAlloc))
	return e.Bytes()
}

func (s *Server) callMetrics(e *exposition) {
	c := &s.counters
	c.mu.Lock()
	defer c.mu.Unlock()
	var calls []call
	for at := range c.calls {
		calls = append(calls, at)
	}
	slices.SortFunc(calls, func(a, b call) int {
		return cmp.Or(cmp.Compare(a.method, b.method), cmp.Compare(a.code, b.code))
	})
	e.metric("calls_total", "counter", "Calls that ended, by method and code; a stream is one call.")
	for _, at := range calls {
		e.sample("calls_total", float64(c.calls[at].n), "method", at.method, "code", at.code.String())
	}
	e.metric("call_seconds_total", "counter", "How long calls took; streams, how long they were open.")
	for _, at := range calls {
		e.sample("call_seconds_total", c.calls[at].seconds, "method", at.method, "code", at.code.String())
	}
	var ids []string
	for id := range c.events {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	e.metric("events_total", "counter", "Events that came in, by what became of them.")
	for _, id := range ids {
		for i, n := range c.events[id] {
			e.sample("events_total", float64(n), "scheduler", id, "result", eventResults[i])
		}
	}
}

// schedulerMetrics come from the service's state at the moment.
func (s *Server) schedulerMetrics(e *exposition) {
	type row struct {
		c  controller.Scheduler
		st controller.Status
		by map[controller.ConfigState]int
	}
	var rows []row
	for _, id := range s.service.Schedulers("", 1<<30) {
		c, st, err := s.service.Scheduler(id)
		if err != nil {
			continue // closing
		}
		all, err := s.service.Configurations(id, 0, 1<<30)
		if err != nil {
			continue
		}
		r := row{c, st, map[controller.ConfigState]int{}}
		for _, one := range all {
			r.by[one.State]++
		}
		rows = append(rows, r)
	}
	flag := func(on bool) float64 {
		if on {
			return 1
		}
		return 0
	}
	for _, m := range []struct {
		name, kind, help string
		value            func(r *row) float64
	}{
		{"scheduler_events", "gauge", "Events known of a scheduler.", func(r *row) float64 { return float64(r.st.Events) }},
		{"scheduler_event_time_seconds", "gauge", "The latest event's scheduler time, since 1970; 0 before the first.", func(r *row) float64 {
			if r.st.EventTime.IsZero() {
				return 0
			}
			return float64(r.st.EventTime.UnixNano()) / 1e9
		}},
		{"scheduler_paused", "gauge", "1 while tuning is paused.", func(r *row) float64 { return flag(r.c.Paused) }},
		{"scheduler_auto", "gauge", "1 in mode AUTO.", func(r *row) float64 { return flag(r.c.Mode == controller.Auto) }},
		{"scheduler_watchers", "gauge", "Streams that watch a scheduler's configuration.", func(r *row) float64 { return float64(r.st.Watchers) }},
		{"rounds_total", "counter", "Tuning rounds decided since the service started.", func(r *row) float64 { return float64(r.st.Rounds) }},
		{"round_failures_total", "counter", "Tuning rounds that failed since the service started.", func(r *row) float64 { return float64(r.st.Failures) }},
		{"round_seconds_total", "counter", "How long tuning rounds took, waiting for their turn included.", func(r *row) float64 { return r.st.Deciding.Seconds() }},
		{"served_revision", "gauge", "The revision a scheduler should run; 0 if it refused all.", func(r *row) float64 { return float64(r.c.Served) }},
		{"acknowledged_revision", "gauge", "The revision a scheduler said it runs; 0 before the first.", func(r *row) float64 { return float64(r.c.Acknowledged) }},
	} {
		e.metric(m.name, m.kind, m.help)
		for i := range rows {
			e.sample(m.name, m.value(&rows[i]), "scheduler", rows[i].c.ID)
		}
	}
	e.metric("configurations", "gauge", "Revisions by state.")
	for i := range rows {
		for _, state := range []controller.ConfigState{controller.Proposed, controller.Published, controller.RolledOut, controller.Superseded, controller.Rejected} {
			e.sample("configurations", float64(rows[i].by[state]), "scheduler", rows[i].c.ID, "state", string(state))
		}
	}
}
