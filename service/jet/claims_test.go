package jet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/autosched/autosched/internal/testshared"
)

// The tests of this file are of the engine: each shows a claim on which the store stands.

// stream makes a stream for a claim.
func stream(t *testing.T, js jetstream.JetStream, c jetstream.StreamConfig) jetstream.Stream {
	t.Helper()
	c.Name, c.Storage = "CLAIM", jetstream.FileStorage
	if c.Subjects == nil {
		c.Subjects = []string{"claim.>"}
	}
	s, err := js.CreateOrUpdateStream(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func lastOf(t *testing.T, s jetstream.Stream) uint64 {
	t.Helper()
	info, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info.State.LastSeq
}

// Of several publishers that expect the same last sequence one succeeds, whatever the subject, and a refused one stores
// nothing.
func TestClaimExpectedLastSequence(t *testing.T) {
	e := start(t, t.TempDir())
	s := stream(t, e.js, jetstream.StreamConfig{})
	for round := range uint64(20) {
		var all sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			all.Go(func() {
				_, errs[i] = e.js.Publish(t.Context(), fmt.Sprint("claim.", i), nil,
					jetstream.WithExpectLastSequence(round))
			})
		}
		all.Wait()
		stored := 0
		for _, err := range errs {
			var refused *jetstream.APIError
			if err == nil {
				stored++
			} else if !errors.As(err, &refused) || refused.ErrorCode != jetstream.JSErrCodeStreamWrongLastSequence &&
				refused.ErrorCode != jetstream.JSErrCodeStreamWrongLastSequenceConstant {
				t.Error(err)
			}
		}
		if last := lastOf(t, s); stored != 1 || last != round+1 {
			t.Fatalf("%d of 8 are stored, the last is %d after %d", stored, last, round)
		}
	}
	for _, wrong := range []uint64{0, 19, 21} {
		if _, err := e.js.Publish(t.Context(), "claim.x", nil, jetstream.WithExpectLastSequence(wrong)); err == nil {
			t.Errorf("stored though %d was expected", wrong)
		}
	}
}

// A message that is published again with its id is stored once. With an expectation that was right the first time it is
// refused all the same, so that a publisher that got no answer must look for its id.
func TestClaimDuplicates(t *testing.T) {
	e := start(t, t.TempDir())
	s := stream(t, e.js, jetstream.StreamConfig{Duplicates: duplicates})
	id := jetstream.WithMsgID("one")
	first, err := e.js.Publish(t.Context(), "claim.a", nil, id, jetstream.WithExpectLastSequence(0))
	if err != nil || first.Duplicate {
		t.Fatal(first, err)
	}
	var refused *jetstream.APIError
	_, err = e.js.Publish(t.Context(), "claim.a", nil, id, jetstream.WithExpectLastSequence(0))
	if !errors.As(err, &refused) || refused.ErrorCode != jetstream.JSErrCodeStreamWrongLastSequence {
		t.Error(err)
	}
	if ack, err := e.js.Publish(t.Context(), "claim.a", nil, id); err != nil || !ack.Duplicate || lastOf(t, s) != 1 {
		t.Error(ack, err)
	}
}

// A purge removes the messages before a sequence, and neither the end nor the expectation of it changes.
func TestClaimPurge(t *testing.T) {
	e := start(t, t.TempDir())
	s := stream(t, e.js, jetstream.StreamConfig{DenyDelete: true})
	for range 5 {
		if _, err := e.js.Publish(t.Context(), "claim.a", nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct{ before, first uint64 }{{4, 4}, {6, 6}} {
		if err := s.Purge(t.Context(), jetstream.WithPurgeSequence(tc.before)); err != nil {
			t.Fatal(err)
		}
		info, err := s.Info(t.Context())
		if err != nil || info.State.FirstSeq != tc.first || info.State.LastSeq != 5 {
			t.Errorf("before %d: %+v, %v", tc.before, info, err)
		}
	}
	if _, err := e.js.Publish(t.Context(), "claim.a", nil, jetstream.WithExpectLastSequence(5)); err != nil {
		t.Error(err)
	}
}

// An ordered consumer delivers each message once, in order, without gaps, while others are stored.
func TestClaimOrderedConsumer(t *testing.T) {
	e := start(t, t.TempDir())
	s := stream(t, e.js, jetstream.StreamConfig{})
	c, err := s.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: 1})
	if err != nil {
		t.Fatal(err)
	}
	messages, err := c.Messages()
	if err != nil {
		t.Fatal(err)
	}
	defer messages.Stop()
	const n = 200
	published := make(chan error, 1)
	go func() {
		var err error
		for i := range n {
			_, one := e.js.Publish(context.Background(), "claim.a", []byte(strconv.Itoa(i)))
			err = errors.Join(err, one)
		}
		published <- err
	}()
	for i := range n {
		m, err := messages.Next()
		if err != nil {
			t.Fatal(err)
		}
		meta, err := m.Metadata()
		if err != nil || meta.Sequence.Stream != uint64(i+1) || string(m.Data()) != strconv.Itoa(i) {
			t.Fatalf("%d: %q, %+v, %v", i, m.Data(), meta, err)
		}
	}
	if err := <-published; err != nil {
		t.Error(err)
	}
}

// A message above the limit of the server is refused, and the connection goes on.
func TestClaimMaxPayload(t *testing.T) {
	e := start(t, t.TempDir())
	s := stream(t, e.js, jetstream.StreamConfig{})
	if limit := e.conn.MaxPayload(); limit != maxPayload {
		t.Errorf("the limit is %d", limit)
	}
	if _, err := e.js.Publish(t.Context(), "claim.a", make([]byte, maxPayload+1)); !errors.Is(err, nats.ErrMaxPayload) {
		t.Error(err)
	}
	if _, err := e.js.Publish(t.Context(), "claim.a", make([]byte, maxPayload-1024)); err != nil {
		t.Error(err)
	}
	if last := lastOf(t, s); last != 1 {
		t.Error(last)
	}
}

// A key is made once, and changed by one that knows its revision, which only rises.
func TestClaimCompareAndSet(t *testing.T) {
	e := start(t, t.TempDir())
	kv := e.Lease()
	first, err := kv.Create(t.Context(), "k", []byte("a"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Create(t.Context(), "k", []byte("b")); !errors.Is(err, jetstream.ErrKeyExists) {
		t.Error(err)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	made := []uint64{}
	for range 8 {
		all.Go(func() {
			if next, err := kv.Update(t.Context(), "k", nil, first); err == nil {
				mu.Lock()
				made = append(made, next)
				mu.Unlock()
			}
		})
	}
	if all.Wait(); len(made) != 1 || made[0] <= first {
		t.Errorf("revisions %v after %d", made, first)
	}
}

// A batch is stored whole or not at all, and the expectation of each message counts. The store does not need it.
func TestClaimAtomicBatch(t *testing.T) {
	e := start(t, t.TempDir())
	s := stream(t, e.js, jetstream.StreamConfig{AllowAtomicPublish: true})
	batch := func(id string, expect ...string) (last *nats.Msg) {
		for i, want := range expect {
			m := &nats.Msg{Subject: fmt.Sprint("claim.", i), Header: nats.Header{"Nats-Batch-Id": {id},
				"Nats-Batch-Sequence": {strconv.Itoa(i + 1)}, jetstream.ExpectedLastSubjSeqHeader: {want}}}
			if i == len(expect)-1 {
				m.Header.Set("Nats-Batch-Commit", "1")
			}
			var err error
			if last, err = e.conn.RequestMsg(m, 5*time.Second); err != nil {
				t.Fatal(err)
			}
		}
		return last
	}
	if m := batch("one", "0", "0"); strings.Contains(string(m.Data), "error") || lastOf(t, s) != 2 {
		t.Errorf("%s, last %d", m.Data, lastOf(t, s))
	}
	if m := batch("two", "1", "7"); !strings.Contains(string(m.Data), "error") || lastOf(t, s) != 2 {
		t.Errorf("a batch of which one expectation is wrong: %s, last %d", m.Data, lastOf(t, s))
	}
}

// The setting of sync_interval is reported to the system account, and Start refuses servers without it.
func TestClaimSyncIsReported(t *testing.T) {
	for _, always := range []bool{true, false} {
		dir := t.TempDir()
		system := server.NewAccount("SYS")
		o := &server.Options{ServerName: "x", Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true,
			StoreDir: dir, SyncAlways: always, NoLog: true, NoSigs: true, MaxPayload: maxPayload,
			Accounts: []*server.Account{system}, SystemAccount: "SYS", NoAuthUser: "user",
			Users: []*server.User{{Username: "system", Password: "secret", Account: system}, {Username: "user"}}}
		s, err := server.NewServer(o)
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		defer s.Shutdown()
		if !s.ReadyForConnections(10 * time.Second) {
			t.Fatal("the server does not start")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		url := s.ClientURL()
		e, err := Start(ctx, &Config{Node: "a", Dir: dir, External: &External{URLs: []string{url},
			System: strings.Replace(url, "nats://", "nats://system:secret@", 1)}}, testLog(t))
		if always && err != nil || !always && !errors.Is(err, ErrSync) {
			t.Errorf("sync always %v: %v", always, err)
		}
		if err == nil {
			e.Close()
		}
	}
}

// TestMain is a server that publishes until it is killed, for TestClaimKill.
func TestMain(m *testing.M) {
	if dir := os.Getenv("AUTOSCHED_JET_PUBLISHER"); dir != "" {
		publishForever(dir)
	}
	os.Exit(m.Run())
}

// publishForever prints the sequence of each message that is acknowledged.
func publishForever(dir string) {
	e, err := Start(context.Background(), &Config{Node: "a", Dir: dir, Embedded: &Embedded{}}, testLogless())
	if err == nil {
		_, err = e.js.CreateOrUpdateStream(context.Background(), jetstream.StreamConfig{Name: "CLAIM",
			Subjects: []string{"claim.>"}, Storage: jetstream.FileStorage})
	}
	for err == nil {
		var ack *jetstream.PubAck
		if ack, err = e.js.Publish(context.Background(), "claim.a", []byte("x")); err == nil {
			fmt.Println(ack.Sequence)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// A message that a server acknowledged is there after it was killed.
func TestClaimKill(t *testing.T) {
	dir := t.TempDir()
	acknowledged := uint64(0)
	for range 5 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "AUTOSCHED_JET_PUBLISHER="+dir)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		lines := strings.Split(out.String(), "\n") // the last is cut or empty
		if len(lines) > 1 {
			n, err := strconv.ParseUint(lines[len(lines)-2], 10, 64)
			if err != nil || n <= acknowledged {
				t.Fatalf("%d after %d, %v, %s", n, acknowledged, err, errs.String())
			}
			acknowledged = n
		}
	}
	e := start(t, dir)
	s, err := e.js.Stream(t.Context(), "CLAIM")
	if err != nil {
		t.Fatal(err)
	}
	if last := lastOf(t, s); acknowledged == 0 || last < acknowledged {
		t.Errorf("%d were acknowledged, %d are there", acknowledged, last)
	}
}

// configs are those of three nodes on one machine.
func configs(t testing.TB) (out []*Config) {
	t.Helper()
	var addresses []string
	for range 3 {
		addresses = append(addresses, testshared.FreeAddress(t))
	}
	for i := range 3 {
		out = append(out, &Config{Node: fmt.Sprint("n", i), Dir: filepath.Join(t.TempDir(), "node"), Replicas: 3,
			Peer: addresses[i], Embedded: &Embedded{Cluster: addresses[i],
				Routes: slices.Delete(slices.Clone(addresses), i, i+1)}})
	}
	return out
}

// again starts a server.
func again(t testing.TB, c *Config) *Engine {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	e, err := Start(ctx, c, testLogless())
	if err != nil {
		t.Error(err)
		return nil
	}
	t.Cleanup(e.Close)
	return e
}

// With three servers an acknowledged message outlives the loss of one with its files, and the change of the leader of
// the stream while messages are stored: each is acknowledged and there, or not acknowledged.
func TestClaimThreeServers(t *testing.T) {
	nodes := configs(t)
	engines := make([]*Engine, 3)
	var all sync.WaitGroup
	for i, c := range nodes {
		all.Go(func() { engines[i] = again(t, c) })
	}
	if all.Wait(); t.Failed() {
		t.FailNow()
	}
	var at uint64
	end := time.Now().Add(time.Minute)
	put := func(e *Engine, n int) {
		t.Helper()
		for i := 0; i < n; i++ {
			ack, err := e.js.Publish(t.Context(), subject("a"), []byte("x"), jetstream.WithMsgID(fmt.Sprint(at+1)),
				jetstream.WithExpectLastSequence(at))
			var refused *jetstream.APIError
			if errors.As(err, &refused) && refused.ErrorCode == 10071 || errors.As(err, &refused) &&
				refused.ErrorCode == 10164 {
				t.Fatalf("after %d: %v", at, err) // only this test publishes, and each id again
			}
			if err != nil {
				if time.Now().After(end) {
					t.Fatalf("after %d: %v", at, err)
				}
				time.Sleep(100 * time.Millisecond)
				i--
				continue
			}
			if ack.Sequence != at+1 {
				t.Fatalf("stored as %d after %d", ack.Sequence, at)
			}
			at++
		}
	}
	leader := func() int {
		s, err := engines[0].js.Stream(t.Context(), logStream)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range nodes {
			if s.CachedInfo().Cluster.Leader == c.Node {
				return i
			}
		}
		return 0
	}
	put(engines[0], 50)
	gone := leader()
	if gone == 0 {
		gone = 1
	}
	engines[gone].Close()
	put(engines[0], 50)
	if err := os.RemoveAll(nodes[gone].Engine()); err != nil {
		t.Fatal(err)
	}
	if engines[gone] = again(t, nodes[gone]); engines[gone] == nil {
		t.FailNow()
	}
	put(engines[gone], 50)
	for i, e := range engines { // the servers' leaders go where a node asks for them
		moved := func() bool {
			for _, name := range []string{logStream, "KV_" + leaseBucket} {
				s, err := e.js.Stream(t.Context(), name)
				if err != nil || s.CachedInfo().Cluster.Leader != nodes[i].Node {
					return false
				}
			}
			return true
		}
		end = time.Now().Add(time.Minute)
		for asked := (time.Time{}); !moved(); time.Sleep(200 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the leaders do not move to %s", nodes[i].Node)
			}
			if time.Since(asked) < gatherEvery { // an election that is asked for again begins again
				continue
			}
			if asked = time.Now(); e.gather(t.Context()) != nil {
				t.Logf("%s asks between two leaders", nodes[i].Node)
			}
		}
		put(e, 5)
	}
	for _, e := range engines {
		s, err := e.js.Stream(t.Context(), logStream)
		if err != nil {
			t.Fatal(err)
		}
		if last := lastOf(t, s); last != at {
			t.Errorf("the last is %d of %d", last, at)
		}
		for n := uint64(1); n <= at; n++ {
			if m, err := s.GetMsg(t.Context(), n); err != nil || m.Header.Get(jetstream.MsgIDHeader) != fmt.Sprint(n) {
				t.Fatalf("message %d: %v", n, err)
			}
		}
	}
}
