package nodetest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/client"
)

// The schedulers of a load. Operators set the offer of one and approve proposals of another; rounds set that of the
// third.
const (
	Pinned   = "pinned"
	Approved = "approved"
	Tuned    = "tuned"
)

// Schedulers lists them.
var Schedulers = []string{Pinned, Approved, Tuned}

// Load uses a service as schedulers and operators do, and records the answers.
type Load struct {
	// Conns has a connection to each node, All one of the client's own to all of them.
	Conns []*grpc.ClientConn
	All   grpc.ClientConnInterface
	// Rate is how many events it sends a second.
	Rate   int
	Wrong  *Violations
	Events *Events

	began     time.Time
	histories map[string]*History
	watches   []*Watch
	tokens    atomic.Int64
	batches   sync.Map // by number
	at        atomic.Int64

	mu     sync.Mutex
	counts map[string]int
	probes [2][]span // writes that succeeded: of the test's client, of All
}

// NewLoad returns a load that has sent nothing.
func NewLoad(conns []*grpc.ClientConn, all grpc.ClientConnInterface, rate int, wrong *Violations) *Load {
	l := &Load{Conns: conns, All: all, Rate: rate, Wrong: wrong, Events: NewEvents(wrong), began: time.Now(),
		histories: map[string]*History{}, counts: map[string]int{}}
	for _, id := range Schedulers {
		l.histories[id] = NewHistory(id, wrong)
		for i := range conns {
			l.watches = append(l.watches, NewWatch(fmt.Sprintf("watch %d of %s", i, id), wrong))
		}
	}
	return l
}

// Now is the time on the clock of the histories.
func (l *Load) Now() time.Duration { return time.Since(l.began) }

func (l *Load) count(what string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[what] += n
}

// Counts returns the numbers of operations by outcome, and begins anew.
func (l *Load) Counts() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.counts
	l.counts = map[string]int{}
	return c
}

// feeds is how many streams send events, perSecond how many batches each sends a second.
const feeds, perSecond = 4, 10

const (
	// attempt bounds one attempt of a call, patience all of them.
	attempt  = 2 * time.Second
	patience = 90 * time.Second
)

// reasonEtag is the reason of a refusal because another configuration is on offer.
const reasonEtag = "ETAG_MISMATCH"

// transient reports whether the outcome of a call is unknown, or it may succeed later.
func transient(err error) bool { return client.Transient(err) && client.Reason(err) != reasonEtag }

// call repeats a call at one node after the other while its outcome is unknown. false means that it stayed unknown.
func (l *Load) call(ctx context.Context, first int,
	f func(context.Context, grpc.ClientConnInterface) error) (err error, known bool) {
	for deadline := time.Now().Add(patience); ; first++ {
		once, cancel := context.WithTimeout(ctx, attempt)
		err = f(once, l.Conns[first%len(l.Conns)])
		cancel()
		if !transient(err) {
			return err, true
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return err, false
		}
		wait(ctx, 20*time.Millisecond)
	}
}

// expected counts the outcome of a call, and reports whether it succeeded. Other errors than the given ones are
// violations.
func (l *Load) expected(what string, err error, known bool, codes ...codes.Code) bool {
	switch {
	case !known:
		l.count(what+" unknown", 1)
	case err == nil:
		l.count(what, 1)
		return true
	case slices.Contains(codes, status.Code(err)):
		l.count(what+" refused", 1)
	default:
		l.Wrong.Addf("%s: %v", what, err)
	}
	return false
}

func offer(c *pb.Configuration) Offer { return Offer{c.GetRevision(), c.GetContentHash()} }

// Register makes the schedulers.
func (l *Load) Register(ctx context.Context) error {
	for _, id := range Schedulers {
		mode := pb.SchedulerSpec_RECOMMEND
		if id == Tuned {
			mode = pb.SchedulerSpec_AUTO
		}
		never := int32(0)
		req := &pb.CreateSchedulerRequest{SchedulerId: id, RequestId: "register-" + id, Scheduler: &pb.Scheduler{
			Spec: &pb.SchedulerSpec{SchedulerType: "tiresias", Mode: mode,
				Cluster: &pb.Cluster{Nodes: 4, GpusPerNode: 8},
				Rollout: &pb.RolloutPolicy{UpdateInterval: durationpb.New(10 * time.Minute), Seed: 1,
					AllowedLateness: durationpb.New(-1), MaxChangesPerDay: &never, FlapWindow: durationpb.New(0),
					RollbackHold: durationpb.New(0)}}}}
		err, known := l.call(ctx, 0, func(ctx context.Context, c grpc.ClientConnInterface) error {
			_, err := pb.NewTuningServiceClient(c).CreateScheduler(ctx, req)
			return err
		})
		if err != nil || !known {
			return fmt.Errorf("register %s: %w", id, err)
		}
	}
	return nil
}

// Current returns the offer to a scheduler, by any node.
func (l *Load) Current(ctx context.Context, id string) (o Offer, err error) {
	err, _ = l.call(ctx, 0, func(ctx context.Context, c grpc.ClientConnInterface) error {
		got, err := current(ctx, c, id)
		o = offer(got)
		return err
	})
	return o, err
}

func current(ctx context.Context, c grpc.ClientConnInterface, id string) (*pb.Configuration, error) {
	got, err := pb.NewConfigurationServiceClient(c).GetCurrentConfiguration(ctx,
		&pb.GetCurrentConfigurationRequest{Name: "schedulers/" + id})
	return got.GetConfiguration(), err
}

// Run loads the service until stop is closed, and then ends the calls under way.
func (l *Load) Run(ctx context.Context, stop <-chan struct{}) {
	streams, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg, watches sync.WaitGroup
	every := func(d time.Duration, f func(i int)) {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-ctx.Done():
					return
				case <-time.After(d):
					f(i)
				}
			}
		})
	}
	for n := range 2 {
		every(80*time.Millisecond, func(i int) { l.pin(ctx, n, i) })
	}
	every(150*time.Millisecond, func(i int) { l.approve(ctx, i) })
	every(100*time.Millisecond, func(i int) { l.acknowledge(ctx, i) })
	for n := range l.Conns {
		every(60*time.Millisecond, func(i int) { l.read(ctx, n, Schedulers[i%len(Schedulers)]) })
	}
	for n := range l.Conns {
		every(70*time.Millisecond, func(i int) { l.readOld(ctx, n, Schedulers[i%len(Schedulers)]) })
	}
	every(50*time.Millisecond, func(i int) { l.probe(ctx, 0, i) })
	if l.All != nil {
		every(50*time.Millisecond, func(i int) { l.probe(ctx, 1, i) })
	}
	for n := range feeds {
		f := &feed{l: l, id: []string{Approved, Tuned}[n%2], node: n}
		defer f.close()
		pairs := max(1, l.Rate/feeds/perSecond/2)
		next := time.Now()
		every(time.Millisecond, func(int) {
			if now := time.Now(); now.Before(next) {
				time.Sleep(next.Sub(now))
			}
			next = next.Add(time.Second / perSecond)
			if late := time.Now().Add(-10 * time.Second); next.Before(late) {
				next = late // after an outage the load catches up with its last seconds only
			}
			f.send(ctx, l.request(l.next(f.id, pairs)))
		})
	}
	for i, w := range l.watches {
		watches.Go(func() { l.watch(streams, w, Schedulers[i/len(l.Conns)], i%len(l.Conns)) })
	}
	wg.Wait()
	cancel()
	watches.Wait()
}

func (l *Load) token(what string) string { return fmt.Sprintf("%s-%d", what, l.tokens.Add(1)) }

// value is a new value of a parameter that every offer sets.
func value() map[string]*structpb.Value {
	return map[string]*structpb.Value{"starve_limit": structpb.NewNumberValue(300 + float64(rand.IntN(9_000_000))/1000)}
}

// pin sets an offer in place of the one it has read.
func (l *Load) pin(ctx context.Context, worker, i int) {
	had, err := (*pb.Configuration)(nil), error(nil)
	err, known := l.call(ctx, worker+i, func(ctx context.Context, c grpc.ClientConnInterface) error {
		had, err = current(ctx, c, Pinned)
		return err
	})
	if !l.expected("get", err, known) {
		return
	}
	token := l.token("pin")
	req := &pb.PinConfigurationRequest{Parent: "schedulers/" + Pinned, Parameters: value(), Reason: token,
		RequestId: token, Etag: had.GetEtag()}
	h := l.histories[Pinned]
	h.Asks(worker, token, had.GetRevision(), l.Now())
	var got *pb.Configuration
	err, known = l.call(ctx, worker+i, func(ctx context.Context, c grpc.ClientConnInterface) (err error) {
		got, err = pb.NewConfigurationServiceClient(c).PinConfiguration(ctx, req)
		return err
	})
	if client.Reason(err) == reasonEtag {
		h.Refused(token, l.Now())
	}
	if l.expected("pin", err, known, codes.Aborted) {
		revision := int64(0)
		if pinToken(got) == token { // the answer to a repeated request is the present state
			revision = got.GetRevision()
		}
		h.Answered(token, revision, l.Now())
	}
}

// approve proposes values and has them offered.
func (l *Load) approve(ctx context.Context, i int) {
	token := l.token("propose")
	req := &pb.ProposeConfigurationRequest{Parent: "schedulers/" + Approved, Parameters: value(), Reason: token,
		RequestId: token}
	var proposed, got *pb.Configuration
	err, known := l.call(ctx, i, func(ctx context.Context, c grpc.ClientConnInterface) (err error) {
		proposed, err = pb.NewConfigurationServiceClient(c).ProposeConfiguration(ctx, req)
		return err
	})
	if !l.expected("propose", err, known, codes.FailedPrecondition) {
		return
	}
	h := l.histories[Approved]
	h.Sees(offer(proposed), "proposal")
	begin := l.Now()
	err, known = l.call(ctx, i, func(ctx context.Context, c grpc.ClientConnInterface) (err error) {
		got, err = pb.NewConfigurationServiceClient(c).ApproveConfiguration(ctx,
			&pb.ApproveConfigurationRequest{Name: proposed.GetName(), RequestId: "approve-" + token})
		return err
	})
	// A round may have proposed something else by now.
	if l.expected("approve", err, known, codes.FailedPrecondition) {
		h.Add(Op{Client: 10, Kind: Set, Offer: offer(got), Call: begin, Return: l.Now()})
	}
}

// acknowledge applies the configurations of rounds, and refuses some.
func (l *Load) acknowledge(ctx context.Context, i int) {
	var c *pb.Configuration
	err, known := l.call(ctx, i, func(ctx context.Context, conn grpc.ClientConnInterface) (err error) {
		c, err = current(ctx, conn, Tuned)
		return err
	})
	if !l.expected("get", err, known) {
		return
	}
	state := pb.Acknowledgement_APPLIED
	if c.GetOrigin() == pb.Configuration_TUNED && i%16 == 0 {
		state = pb.Acknowledgement_REJECTED
	}
	err, known = l.call(ctx, i, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		_, err := pb.NewConfigurationServiceClient(conn).AcknowledgeConfiguration(ctx,
			&pb.AcknowledgeConfigurationRequest{Name: c.GetName(), ContentHash: c.GetContentHash(), Epoch: c.GetEpoch(),
				Acknowledgement: &pb.Acknowledgement{State: state}})
		return err
	})
	l.expected(state.String(), err, known)
}

// read reads an offer from one node, which may be one that was deposed.
func (l *Load) read(ctx context.Context, node int, id string) {
	begin := l.Now()
	once, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	c, err := current(once, l.Conns[node], id)
	if l.expected("read", err, !transient(err)) {
		l.histories[id].Add(Op{Client: 20 + node, Kind: Read, Offer: offer(c), Call: begin, Return: l.Now()})
	}
}

// mostOld is how old the answers of copies may be, and oldReads counts them.
const (
	mostOld  = 2 * time.Second
	oldReads = "read of a copy"
)

// readOld reads an offer from the copy of one node, which may be cut off.
func (l *Load) readOld(ctx context.Context, node int, id string) {
	begin := l.Now()
	once, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	var header metadata.MD
	c, err := pb.NewConfigurationServiceClient(l.Conns[node]).GetCurrentConfiguration(
		metadata.AppendToOutgoingContext(once, "autosched-max-staleness", mostOld.String()),
		&pb.GetCurrentConfigurationRequest{Name: "schedulers/" + id}, grpc.Header(&header))
	what := "read"
	if len(header.Get("autosched-staleness")) > 0 {
		what = oldReads
	}
	if l.expected(what, err, !transient(err)) {
		l.histories[id].Old(offer(c.GetConfiguration()), begin, mostOld)
	}
}

// probe makes a small write, to find when the service takes writes.
func (l *Load) probe(ctx context.Context, which, i int) {
	conn := l.All
	if which == 0 {
		conn = l.Conns[i%len(l.Conns)]
	}
	begin := l.Now()
	once, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	name := fmt.Sprintf("schedulers/%s/configurations/1", Pinned)
	_, err := pb.NewConfigurationServiceClient(conn).AcknowledgeConfiguration(once, &pb.AcknowledgeConfigurationRequest{
		Name: name, Acknowledgement: &pb.Acknowledgement{State: pb.Acknowledgement_FAILED, InstanceId: "probe",
			Error: fmt.Sprint(begin)}})
	if !l.expected("probe", err, !transient(err)) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.probes[which] = append(l.probes[which], span{begin, l.Now()})
}

// span is from when to when a write took.
type span struct{ begin, end time.Duration }

// Outage is how the service took writes after an instant.
type Outage struct {
	// Back is when the first write that began after it was acknowledged, Longest the longest time between two such
	// acknowledgements.
	Back    time.Duration `json:"back"`
	Longest time.Duration `json:"longest"`
	// P50 and P99 are of how long the writes took that began after it.
	P50 time.Duration `json:"p50"`
	P99 time.Duration `json:"p99"`
}

// Outages returns the outages since an instant, as a client sees that goes from node to node at every write, and as
// the connection to all nodes sees, and begins anew.
func (l *Load) Outages(since time.Duration) (o [2]Outage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for which, all := range l.probes {
		slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.end, b.end) })
		last, took := since, []time.Duration(nil)
		for _, t := range all {
			if t.begin < since {
				continue
			}
			if last == since {
				o[which].Back = t.end - since
			}
			o[which].Longest, last = max(o[which].Longest, t.end-last), t.end
			took = append(took, t.end-t.begin)
		}
		o[which].P50, o[which].P99 = Quantile(took, 0.5), Quantile(took, 0.99)
		l.probes[which] = nil
	}
	return o
}

// Quantile returns a value below which a share of the values lies, 0 of none. It sorts them.
func Quantile(all []time.Duration, share float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(len(all)-1, int(share*float64(len(all))))]
}

// watch follows a scheduler, each stream at the next node, from where the stream before ended.
func (l *Load) watch(ctx context.Context, w *Watch, id string, node int) {
	for ; ctx.Err() == nil; node++ {
		err := func() error {
			stream, cancel := context.WithCancel(ctx)
			defer cancel()
			// A node that stands still is left as a dead one is.
			alive := time.AfterFunc(2*attempt, cancel)
			defer alive.Stop()
			s, err := pb.NewConfigurationServiceClient(l.Conns[node%len(l.Conns)]).WatchConfigurations(stream,
				&pb.WatchConfigurationsRequest{Parent: "schedulers/" + id, ResumeToken: w.token,
					SendInitialEvents: w.Last() == 0, HeartbeatInterval: durationpb.New(time.Second)})
			for err == nil {
				var got *pb.WatchConfigurationsResponse
				if got, err = s.Recv(); err != nil {
					break
				}
				alive.Reset(2 * attempt)
				if c := got.GetConfiguration(); c != nil {
					l.histories[id].Watched(offer(c), l.Now())
					w.Sees(c.GetRevision())
					l.count("watched", 1)
				}
				w.token = got.GetResumeToken()
			}
			return err
		}()
		if ctx.Err() == nil && !transient(err) && err != io.EOF {
			l.Wrong.Addf("%s after revision %d: %v", w.Name, w.Last(), err)
			w.token = "" // one violation for one cause
		}
		wait(ctx, 50*time.Millisecond)
	}
}

// batch has all that a batch is made of.
type batch struct {
	id    string // of the scheduler
	at    time.Time
	pairs int
}

// next makes the next batch, and returns its number.
func (l *Load) next(id string, pairs int) int {
	n := l.Events.Batch(2 * pairs)
	// Event time is a hundred times as fast as the clock at every rate.
	at := time.Unix(1_700_000_000, 0).Add(time.Duration(l.at.Add(int64(100 * time.Second / feeds / perSecond))))
	l.batches.Store(n, batch{id, at, pairs})
	return n
}

// request is the request of a batch of jobs that are submitted and cancelled, the same at every call.
func (l *Load) request(n int) *pb.IngestEventsRequest {
	v, _ := l.batches.Load(n)
	b := v.(batch)
	req := &pb.IngestEventsRequest{Parent: "schedulers/" + b.id, Sequence: int64(n) + 1}
	for i := range b.pairs {
		job, when := EventID(n, i), timestamppb.New(b.at)
		req.Events = append(req.Events,
			&pb.Event{EventId: EventID(n, 2*i), Kind: pb.Event_SUBMITTED, SchedulerTime: when,
				Job: &pb.JobDetails{JobId: job, Tenant: "vc", MilliGpus: 1000}},
			&pb.Event{EventId: EventID(n, 2*i+1), Kind: pb.Event_FINISHED, SchedulerTime: when,
				Job: &pb.JobDetails{JobId: job, EndStatus: pb.JobDetails_CANCELLED}})
	}
	return req
}

// feed is a stream of events, at one node after the other.
type feed struct {
	l      *Load
	id     string
	node   int
	stream grpc.BidiStreamingClient[pb.IngestEventsRequest, pb.IngestEventsResponse]
	cancel context.CancelFunc
}

func (f *feed) close() {
	if f.cancel != nil {
		f.cancel()
	}
	f.stream, f.cancel = nil, nil
}

// send sends a batch until it is answered.
func (f *feed) send(ctx context.Context, req *pb.IngestEventsRequest) {
	deadline := time.Now().Add(patience)
	for again := false; time.Now().Before(deadline) && ctx.Err() == nil; again = true {
		a, err := f.once(ctx, req)
		if err == nil {
			f.l.Events.Answered(int(req.GetSequence())-1, Answer{Stored: int(a.GetAcceptedCount()),
				Duplicate: int(a.GetDuplicateCount()), Late: int(a.GetLateCount()),
				Rejected: len(a.GetRejectedEvents())}, again)
			f.l.count("events", len(req.GetEvents()))
			return
		}
		f.close()
		if !transient(err) && err != io.EOF {
			f.l.Wrong.Addf("batch %d: %v", req.GetSequence()-1, err)
			return
		}
		f.node++
		wait(ctx, 20*time.Millisecond)
	}
	f.l.count("batches unknown", 1)
}

func (f *feed) once(ctx context.Context, req *pb.IngestEventsRequest) (*pb.IngestEventsResponse, error) {
	if f.stream == nil {
		var open context.Context
		open, f.cancel = context.WithCancel(ctx)
		var err error
		if f.stream, err = pb.NewTuningServiceClient(f.l.Conns[f.node%len(f.l.Conns)]).IngestEvents(open); err != nil {
			return nil, err
		}
	}
	defer time.AfterFunc(2*attempt, f.cancel).Stop()
	if err := f.stream.Send(req); err != nil && err != io.EOF { // io.EOF: Recv has the error
		return nil, err
	}
	a, err := f.stream.Recv()
	if err == nil && a.GetSequence() != req.GetSequence() {
		return nil, fmt.Errorf("the answer to request %d is that to %d", req.GetSequence(), a.GetSequence())
	}
	return a, err
}

// Resend sends up to n batches that were acknowledged, of any age, again.
func (l *Load) Resend(ctx context.Context, n int) {
	streams := map[string]*feed{}
	for _, b := range l.Events.Sample(n, rand.IntN) {
		req := l.request(b)
		f := streams[req.GetParent()]
		if f == nil {
			f = &feed{l: l}
			defer f.close()
			streams[req.GetParent()] = f
		}
		f.send(ctx, req)
		l.count("resent", 1)
	}
}

// Settled checks the histories since the last call while no client changes anything: first has the offers of then, and
// gets those of now. ops is the number of operations.
func (l *Load) Settled(ctx context.Context, first map[string]Offer, began, stale time.Duration) (ops int,
	err error) {
	for _, id := range Schedulers {
		list, err := l.list(ctx, id)
		if err != nil {
			return 0, err
		}
		now, err := l.Current(ctx, id)
		if err != nil {
			return 0, err
		}
		h := l.histories[id]
		h.Add(Op{Client: 30, Kind: Read, Offer: now, Call: l.Now(), Return: l.Now()})
		ops += h.Check(first[id], began, stale, list)
		first[id] = now
		for i, w := range l.watches {
			if Schedulers[i/len(l.Conns)] == id {
				l.complete(ctx, w, id, i, now.Revision)
			}
		}
	}
	return ops, nil
}

// complete resumes a watch until it has the last revision, which it must soon.
func (l *Load) complete(ctx context.Context, w *Watch, id string, node int, last int64) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.watch(ctx, w, id, node)
	}()
	for ctx.Err() == nil && w.Last() < last {
		wait(ctx, 5*time.Millisecond)
	}
	if w.Last() != last {
		l.Wrong.Addf("%s ends at revision %d, and %d is on offer", w.Name, w.Last(), last)
	}
	cancel()
	<-done
}

// pinToken is the token of the request that made a pinned revision: the operator's reason.
func pinToken(c *pb.Configuration) string {
	_, token, _ := strings.Cut(c.GetReason(), ": ")
	return token
}

// list lists all revisions of a scheduler.
func (l *Load) list(ctx context.Context, id string) (all []Made, err error) {
	for page := ""; ; {
		var got *pb.ListConfigurationsResponse
		err, _ := l.call(ctx, 0, func(ctx context.Context, c grpc.ClientConnInterface) (err error) {
			got, err = pb.NewConfigurationServiceClient(c).ListConfigurations(ctx,
				&pb.ListConfigurationsRequest{Parent: "schedulers/" + id, PageSize: 1000, PageToken: page})
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", id, err)
		}
		for _, c := range got.GetConfigurations() {
			m := Made{Offer: offer(c), Offered: true}
			if c.GetOrigin() == pb.Configuration_PINNED {
				m.Token = pinToken(c)
			}
			if id == Approved && (c.GetOrigin() == pb.Configuration_TUNED || c.GetOrigin() == pb.Configuration_MANUAL) {
				m.Offered = c.GetReview().GetApproved()
			}
			all = append(all, m)
		}
		if page = got.GetNextPageToken(); page == "" {
			return all, nil
		}
	}
}
