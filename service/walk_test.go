package service

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/autosched/autosched/api/access"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/internal/checkup"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/service/doctor"
	"github.com/autosched/autosched/service/findings"
	"github.com/autosched/autosched/service/reports"
	"github.com/autosched/autosched/service/samples"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/service/studies"
	"github.com/autosched/autosched/service/workloads"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/study"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

// keeper is a kind of record that the service keeps.
type keeper struct {
	files []string // patterns of its files
	// write stores a record named by a text, and read returns names that can be read.
	write func(s *service, n int, name string) error
	read  func(s *service, found func(name string)) error
}

// walkedAt is the hour of the first record.
var walkedAt = time.Date(2025, 3, 1, 0, 0, 0, 0, time.UTC)

func walkedTime(n int) time.Duration {
	return time.Duration(walkedAt.UnixNano()) + time.Duration(n)*time.Hour
}

func uidOf(s *service, id string) string {
	c, _, _ := s.controller.Scheduler(id)
	return c.UID
}

// keepers are all kinds of records of schedulers "s" and "r", and of an external one, "x".
var keepers = map[string]keeper{
	"configurations": {[]string{"config.db"}, func(s *service, n int, name string) error {
		_, err := s.controller.Pin(context.Background(), controller.Call{}, "s", rollout.Pin{Reason: name}, nil,
			func(sp *space.Space, _ space.Config) (space.Config, error) {
				return sp.Default().With("pack", space.Bool(n%2 == 0)), nil
			})
		return err
	}, func(s *service, found func(string)) error {
		all, err := s.controller.Configurations("s", math.MaxInt64, 100)
		for _, c := range all {
			if c.State != rollout.Lost {
				found(c.Reason)
			}
		}
		return err
	}},
	"revisions of schedulers": {[]string{"config.db"}, func(s *service, n int, name string) error {
		p := space.Param{ID: fmt.Sprint("p", n), Kind: space.KindBool, Description: name, Default: space.Bool(false)}
		add := func(c *controller.Scheduler) error { c.Params = append(slices.Clone(c.Params), p); return nil }
		_, err := s.controller.Modify(context.Background(), controller.Call{}, "r", add)
		return err
	}, func(s *service, found func(string)) error {
		all, err := s.controller.Revisions("r", 0, 100)
		for _, r := range all {
			if r.Damage == nil && len(r.Params) > 2 {
				found(r.Params[len(r.Params)-1].Description)
			}
		}
		return err
	}},
	"records of studies": {[]string{"config.db"}, func(s *service, n int, name string) error {
		_, err := s.studies.Create(context.Background(), controller.Call{}, "x", study.Record{ID: fmt.Sprint("k", n),
			Display: name, Spec: study.Spec{Metric: "wait", Algorithm: "random", Budget: 100, Lease: time.Hour}})
		return err
	}, func(s *service, found func(string)) error {
		for n := range walkedRecords {
			if st, err := s.studies.Study("x", fmt.Sprint("k", n)); err == nil {
				found(st.Display)
			}
		}
		return nil
	}},
	"studies": {[]string{"config.db"}, func(s *service, n int, name string) error {
		if n == 0 {
			if _, err := s.studies.Create(context.Background(), controller.Call{}, "x", study.Record{ID: "k",
				Spec: study.Spec{Metric: "wait", Algorithm: "random", Budget: 100, Lease: time.Hour}}); err != nil {
				return err
			}
		}
		st, err := s.studies.Study("x", "k")
		if err == nil {
			_, _, err = s.studies.Do(context.Background(), controller.Call{}, "x", "k", 0, study.Create{Failure: name,
				Config: st.Space.Default().With("n", space.Int(1+n))})
		}
		return err
	}, func(s *service, found func(string)) error {
		st, err := s.studies.Study("x", "k")
		for _, t := range st.Trials {
			found(t.Reason)
		}
		return err
	}},
	"events": {[]string{"events-*.db", "checkpoint-*.db"}, func(s *service, n int, name string) error {
		got, err := s.controller.Ingest(context.Background(), controller.Call{}, "s", []workload.Event{{
			ID: name, Kind: workload.Submitted, Time: walkedTime(n),
			Job: workload.Job{ID: name, GPUs: workload.GPUs(1)}}})
		if err == nil && got.Accepted != 1 {
			err = fmt.Errorf("%+v", got)
		}
		return err
	}, func(s *service, found func(string)) error {
		_, err := s.store.ReplayEvents("s", func(_ string, e workload.Event) error { found(e.Job.ID); return nil })
		return err
	}},
	"rounds": {[]string{"rounds.db"}, func(s *service, n int, name string) error {
		return s.store.KeepRound(uidOf(s, "s"), 1000+int64(n), []byte(name), 1000)
	}, func(s *service, found func(string)) error {
		return s.store.Rounds(uidOf(s, "s"), 0, func(_ int64, record []byte, err error) bool {
			if err == nil {
				found(string(record))
			}
			return true
		})
	}},
	"reports": {[]string{"reports.db"}, func(s *service, n int, name string) error {
		_, err := s.reports.Append(context.Background(), controller.Call{}, "s", []reports.Report{{Revision: 1,
			Key:     reports.Key{Time: time.Unix(0, int64(walkedTime(n))), Instance: name},
			Metrics: map[string]float64{"wait": 1}}})
		return err
	}, func(s *service, found func(string)) error {
		return s.reports.List("s", reports.Key{}, func(r *reports.Report) bool { found(r.Instance); return true })
	}},
	"workloads": {[]string{"workloads.db"}, func(s *service, n int, name string) error {
		uid := fmt.Sprint("u", n)
		return s.store.ChangeWorkloads(workloads.Change{Scheduler: "s", SchedulerUID: uidOf(s, "s"), Text: []byte(name),
			Record: workloads.Record{ID: uid, UID: uid}, Audit: &audit.Record{}})
	}, func(s *service, found func(string)) error {
		for n := range walkedRecords {
			if text, err := s.store.WorkloadText(uidOf(s, "s"), fmt.Sprint("u", n)); err == nil {
				found(string(text))
			}
		}
		return nil
	}},
	"samples": {[]string{"telemetry/s/*"}, func(s *service, n int, name string) error {
		return s.samples.Append(context.Background(), "s", []telemetry.GPUSample{{Time: walkedTime(n),
			GPU: telemetry.GPU{Node: name}}})
	}, func(s *service, found func(string)) error {
		return s.samples.Read(context.Background(), "s", samples.Query{}, func(x *telemetry.GPUSample) error {
			found(x.GPU.Node)
			return nil
		})
	}},
	"iterations": {[]string{"telemetry/s/*"}, func(s *service, n int, name string) error {
		return s.samples.AppendIterations(context.Background(), "s", []telemetry.Iteration{{Time: walkedTime(n),
			Job: name, Took: 1}})
	}, func(s *service, found func(string)) error {
		return s.samples.Iterations(context.Background(), "s", 0, math.MaxInt64, func(x *telemetry.Iteration) error {
			found(x.Job)
			return nil
		})
	}},
	"findings": {[]string{"findings/*.json"}, func(s *service, n int, name string) error {
		for hour := range 6 {
			applied := walkedTime(100 * n)
			s.findings.Guardrail("x", patterns.Guardrail{Time: applied + time.Duration(hour+1)*time.Hour,
				Applied: applied, Revision: name, Name: "delay", Value: 2, Low: math.Inf(-1), High: 1})
		}
		_, err := s.controller.Ingest(context.Background(), controller.Call{}, "x", []workload.Event{{ID: fmt.Sprint(n),
			Kind: workload.Submitted, Time: walkedTime(100*n + 50), Job: workload.Job{ID: fmt.Sprint(n),
				GPUs: workload.GPUs(1)}}})
		for until := time.Now().Add(2 * time.Minute); err == nil; time.Sleep(time.Millisecond) {
			all, _, _ := s.findings.List("x", findings.Query{Limit: 100})
			i := slices.IndexFunc(all, func(f *findings.Finding) bool { return f.Entity.Name == name })
			if i >= 0 {
				_, err = s.findings.Acknowledge("x", all[i].ID, "ann", "seen")
				return err
			}
			if time.Now().After(until) {
				return fmt.Errorf("no finding of %s", name)
			}
		}
		return err
	}, func(s *service, found func(string)) error {
		all, _, _ := s.findings.List("x", findings.Query{Limit: 100})
		for _, f := range all {
			if f.Acknowledged != nil {
				found(f.Entity.Name)
			}
		}
		return nil
	}},
}

const walkedRecords = 4 // of each keeper

// others are files that have no records.
var others = []string{"reserve", "lock", "*.lock", "audit*", "audit/*", "epoch*"}

// walked starts a service on a directory. The second function stops it.
func walked(t *testing.T, dir string) (s *service, log *logged, stop func(), err error) {
	t.Helper()
	return walkedBy(t, dir, nil)
}

// walkedBy is walked for the callers of some files, for anyone if they are nil.
func walkedBy(t *testing.T, dir string, callers *access.Source) (s *service, log *logged, stop func(), err error) {
	t.Helper()
	o, log := options(t)
	if callers != nil {
		o.Access = callers
	}
	o.Dir, o.Agents, o.Findings = dir, nil, Findings{}
	if s, err = open(o); err != nil {
		return s, log, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx, s.tasks()) }()
	select {
	case <-s.controller.Rebuilt():
	case err := <-done:
		t.Fatal(err, log)
	}
	for err := findings.ErrClosed; errors.Is(err, findings.ErrClosed); time.Sleep(time.Millisecond) {
		_, err = s.findings.Get("x", "none") // until it runs
	}
	return s, log, func() {
		cancel()
		if err := errors.Join(<-done, s.close()); err != nil {
			t.Error(err)
		}
	}, nil
}

func nameOf(kind string, n int) string { return fmt.Sprintf("record-%s-%d-of-the-walk", kind, n) }

// registered are the schedulers of the keepers.
func registered(t *testing.T, s *service) {
	t.Helper()
	for id, typ := range map[string]string{"s": "test", "r": "test", "x": controller.External} {
		params := []space.Param{{ID: "pack", Kind: space.KindBool, Default: space.Bool(false)},
			{ID: "n", Kind: space.KindInt, Min: 1, Max: 99, Default: space.Int(99)}}
		policy := controller.DefaultPolicy()
		if _, err := s.controller.Register(t.Context(), controller.Call{}, controller.Registration{ID: id, Type: typ,
			Objective: map[string]string{"s": "avg_jct", "r": "avg_jct", "x": "wait"}[id], Params: params,
			Cluster: workload.Uniform(1, 8), Policy: policy, Mode: controller.Recommend}); err != nil {
			t.Fatal(err)
		}
	}
}

// column says how a keeper stands one of the walks.
type column struct {
	// bound is what bounds its records in whatever state a scheduler is: a test, as "package TestName", or a reason.
	bound string
	// held is the entry of holds in which a reader of it, or a computation on it, stands still, or a reason.
	held string
	// services of the API write it.
	services []string
}

// columns are the walks of the keepers, beside those of damage, versions and full disks, which begin with the keepers.
var columns = map[string]column{
	"configurations": {"controller TestRetentionInEveryState", "a question",
		[]string{"ConfigurationService", "OperationService"}},
	"revisions of schedulers": {"-: an operator makes each", "a question", []string{"TuningService"}},
	"records of studies":      {"service TestStudiesAreBounded", "a proposal of a study", []string{"StudyService"}},
	"studies":                 {"-: study.MaxTrials", "a proposal of a study", []string{"StudyService"}},
	"events": {"controller TestRetentionInEveryState", "a reader of events",
		[]string{"TuningService"}},
	"rounds":  {"controller TestKeptRounds", "a reader of rounds", []string{"OperationService"}},
	"reports": {"service/reports TestRetention", "a reader of reports", []string{"MetricService"}},
	"workloads": {"api/server TestWorkloadsAreRefused", "the making of a workload",
		[]string{"WorkloadService"}},
	"samples":    {"service/samples TestRetention", "a reader of samples", []string{"TelemetryService"}},
	"iterations": {"service/samples TestRetention", "a reader of iterations", []string{"TelemetryService"}},
	"findings":   {"service/findings TestBounds", "-: lists are read from memory", []string{"FindingService"}},
}

// TestEveryKeeper: no part of the service that keeps records is left out of the walks, nor out of one of them.
func TestEveryKeeper(t *testing.T) {
	parts := map[string][]string{"store": {"configurations", "revisions of schedulers", "events", "rounds"},
		"studies": {"studies", "records of studies"},
		"samples": {"samples", "iterations"}, "reports": {"reports"}, "workloads": {"workloads"},
		"findings": {"findings"}}
	left := maps.Clone(keepers)
	of := reflect.TypeFor[service]()
	for i := range of.NumField() {
		f := of.Field(i)
		at := ""
		if f.Type.Kind() == reflect.Pointer {
			at = f.Type.Elem().PkgPath()
		}
		_, writes := f.Type.MethodByName("Forget") // of a purged scheduler
		if (!strings.Contains(at, "/service/") || !writes) && f.Type != reflect.TypeFor[Store]() {
			continue
		}
		for _, name := range parts[f.Name] {
			delete(left, name)
			if keepers[name].write == nil {
				t.Errorf("%s is in no walk", name)
			}
			checkColumn(t, name)
		}
		if parts[f.Name] == nil {
			t.Errorf("records of %s, a %v, are in no walk", f.Name, f.Type)
		}
		delete(parts, f.Name)
	}
	if len(parts) > 0 || len(left) > 0 || len(columns) != len(keepers) {
		t.Errorf("parts of no service: %v, keepers of no part: %v, %d columns", parts, left, len(columns))
	}
}

func checkColumn(t *testing.T, kind string) {
	t.Helper()
	c := columns[kind]
	for i, fields := 0, reflect.ValueOf(c); i < fields.NumField(); i++ {
		if fields.Field(i).IsZero() {
			t.Errorf("%s: a column is missing: %+v", kind, c)
		}
	}
	if holds[c.held] == nil && !strings.HasPrefix(c.held, "-: ") {
		t.Errorf("%s: nothing is held as %q", kind, c.held)
	}
	if folder, test, _ := strings.Cut(c.bound, " "); folder != "-:" {
		files, err := filepath.Glob(filepath.Join("..", folder, "*_test.go"))
		if !slices.ContainsFunc(files, func(name string) bool {
			text, _ := os.ReadFile(name)
			return bytes.Contains(text, []byte("func "+test+"("))
		}) {
			t.Errorf("%s: there is no %s, %v", kind, c.bound, err)
		}
	}
	for _, name := range c.services {
		of := protoreflect.FullName("autosched.v1." + name)
		if _, err := protoregistry.GlobalFiles.FindDescriptorByName(of); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// TestStudiesAreBounded: a scheduler has at most MaxStudies.
func TestStudiesAreBounded(t *testing.T) {
	s, _, stop, err := walked(t, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	registered(t, s)
	for n := range studies.MaxStudies + 1 {
		if err := keepers["records of studies"].write(s, n, fmt.Sprint(n)); (err == nil) != (n < studies.MaxStudies) {
			t.Fatalf("study %d: %v", n, err)
		}
	}
}

// written fills a directory with records of every keeper.
func written(t *testing.T, dir string) {
	t.Helper()
	s, log, stop, err := walked(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	registered(t, s)
	for _, kind := range slices.Sorted(maps.Keys(keepers)) {
		for n := range walkedRecords {
			if err := keepers[kind].write(s, n, nameOf(kind, n)); err != nil {
				t.Fatalf("%s: %v\n%s", kind, err, log)
			}
		}
	}
	if lost := missing(t, s, ""); len(lost) > 0 {
		t.Fatalf("%v are not there", lost)
	}
}

// TestVersionOfEveryKeeper: a program that does not know the version of a directory leaves the files of each keeper as
// they are, and one that does finds all records.
func TestVersionOfEveryKeeper(t *testing.T) {
	dir := t.TempDir()
	written(t, dir)
	content := func() map[string]string {
		out := map[string]string{}
		err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				text, err := os.ReadFile(name)
				out[name] = string(text)
				return err
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	config := filepath.Join(dir, store.ConfigFile)
	before, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	db, err := bolt.Open(config, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		key, body, sums := []byte("reader"), []byte{1, 99}, crc32.MakeTable(crc32.Castagnoli)
		sum := crc32.Update(crc32.Checksum(key, sums), sums, body)
		return tx.Bucket([]byte("_meta")).Put(key, append(binary.LittleEndian.AppendUint32(nil, sum), body...))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	newer := content()
	if _, _, stop, err := walked(t, dir); !errors.Is(err, store.ErrNewer) || stop != nil {
		t.Fatalf("a newer directory: %v", err)
	}
	for name, text := range content() {
		if newer[name] != text {
			t.Errorf("%s is changed", name)
		}
		delete(newer, name)
	}
	if len(newer) > 0 {
		t.Errorf("removed: %v", slices.Collect(maps.Keys(newer)))
	}
	if err := os.WriteFile(config, before, 0o600); err != nil {
		t.Fatal(err)
	}
	s, _, stop, err := walked(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if lost := missing(t, s, ""); len(lost) > 0 {
		t.Errorf("lost: %v", lost)
	}
}

// reading begins the names of methods that write no record of a keeper.
var reading = []string{"Get", "List", "Watch", "Wait", "WhatIf", "Explain", "Validate", "Estimate", "Check", "Download"}

// TestCallersOfEveryKeeper: no method of a service that writes records of a keeper answers a caller without identity, a
// viewer, or a scheduler that is another one.
func TestCallersOfEveryKeeper(t *testing.T) {
	sum := func(token string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(token))) }
	roles := filepath.Join(t.TempDir(), "roles.yaml")
	text := fmt.Sprintf("callers:\n  - {name: v, role: viewer, token_sha256: [%s]}\n"+
		"  - {name: other, role: scheduler, scheduler: other, token_sha256: [%s]}\n", sum("v"), sum("other"))
	if err := os.WriteFile(roles, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := access.Open(access.Files{Roles: roles}, access.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, _, stop, err := walkedBy(t, t.TempDir(), files)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	conn, err := grpc.NewClient(s.listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	tried := map[string]int{}
	for kind, c := range columns {
		for _, name := range c.services {
			d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName("autosched.v1." + name))
			if err != nil {
				t.Fatal(err)
			}
			methods := d.(protoreflect.ServiceDescriptor).Methods()
			for i := range methods.Len() {
				m := methods.Get(i)
				is := func(prefix string) bool { return strings.HasPrefix(string(m.Name()), prefix) }
				if slices.ContainsFunc(reading, is) {
					continue
				}
				tried[kind]++
				for _, token := range []string{"", "v", "other"} {
					if err := refusal(t, conn, m, token); status.Code(err) != codes.PermissionDenied &&
						status.Code(err) != codes.Unauthenticated {
						t.Errorf("%s: %s by %q: %v", kind, m.FullName(), token, err)
					}
				}
			}
		}
		if tried[kind] == 0 {
			t.Errorf("%s: no method writes it", kind)
		}
	}
}

// refusal calls a method for scheduler "s" and returns the error.
func refusal(t *testing.T, conn *grpc.ClientConn, m protoreflect.MethodDescriptor, token string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	in, out := dynamicpb.NewMessage(m.Input()), dynamicpb.NewMessage(m.Output())
	for _, name := range []protoreflect.Name{"name", "parent", "scheduler"} {
		if f := m.Input().Fields().ByName(name); f != nil && f.Kind() == protoreflect.StringKind && !f.IsList() {
			in.Set(f, protoreflect.ValueOfString("schedulers/s"))
		}
	}
	method := fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name())
	if !m.IsStreamingClient() && !m.IsStreamingServer() {
		return conn.Invoke(ctx, method, in, out)
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err == nil {
		_, _ = stream.SendMsg(in), stream.CloseSend()
		err = stream.RecvMsg(out)
	}
	return err
}

// TestDamageOfEveryFile: a flipped bit in any file, wherever a record is and at places between, stops the start only
// in config.db, costs no record of another file and at most the record that has it, and what it costs is named (N4).
func TestDamageOfEveryFile(t *testing.T) {
	testshared.Full(t)
	from := t.TempDir()
	written(t, from)
	if named := faults(from); len(named) > 0 {
		t.Fatalf("the whole directory: %v", named)
	}
	var files []string
	err := filepath.WalkDir(from, func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			name, err = filepath.Rel(from, name)
			files = append(files, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	damages := 0
	for _, file := range files {
		var owners []string
		for kind, k := range keepers {
			if matches(k.files, file) {
				owners = append(owners, kind)
			}
		}
		if len(owners) == 0 && !matches(others, file) {
			t.Errorf("file %s is of no keeper", file)
			continue
		}
		whole, err := os.ReadFile(filepath.Join(from, file))
		if err != nil {
			t.Fatal(err)
		}
		places := map[int]string{} // with the record that is there
		for n := range 4 {
			places[(1+n)*len(whole)/5] = ""
		}
		for _, kind := range owners {
			for _, n := range []int{1, walkedRecords - 1} { // the last one is in force
				name := []byte(nameOf(kind, n))
				for at := bytes.Index(whole, name); at >= 0; {
					places[at+len(name)-2] = string(name)
					next := bytes.Index(whole[at+1:], name)
					if at += next + 1; next < 0 {
						break
					}
				}
			}
		}
		for at, record := range places {
			if at >= len(whole) {
				continue // an empty file
			}
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
				t.Fatal(err)
			}
			text := slices.Clone(whole)
			text[at] ^= 4
			if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
				t.Fatal(err)
			}
			damages++
			named := faults(dir)
			s, log, stop, err := walked(t, dir)
			if err != nil {
				if file != store.ConfigFile || !strings.Contains(err.Error(), file) || record != "" {
					t.Errorf("%s, byte %d, %s: it does not start: %v", file, at, record, err)
				}
				continue
			}
			lost := missing(t, s, file)
			for id, err := range s.controller.Quarantined() {
				if record != "" {
					t.Errorf("%s, byte %d, %s: scheduler %s is quarantined: %v", file, at, record, id, err)
				}
			}
			stop()
			if len(lost) > 1 && record != "" {
				t.Errorf("%s, byte %d: %v are lost by damage to %s", file, at, lost, record)
			}
			if len(lost) > 0 && len(named) == 0 {
				t.Errorf("%s, byte %d: %v are lost, and nothing is named:\n%s", file, at, lost, log)
			}
			_ = os.RemoveAll(dir)
		}
	}
	t.Logf("%d damages in %d files", damages, len(files))
}

// faults are those that the doctor names.
func faults(dir string) []checkup.Check {
	var r checkup.Report
	_ = os.Chmod(dir, 0o700)
	doctor.Directory(&r, dir, time.Now())
	return slices.DeleteFunc(r.Checks, func(c checkup.Check) bool { return c.Status == checkup.OK })
}

func matches(patterns []string, file string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { ok, _ := path.Match(p, file); return ok })
}

// missing are the records that cannot be read, of which none may be of another file than a damaged one.
func missing(t *testing.T, s *service, file string) (lost []string) {
	t.Helper()
	for kind, k := range keepers {
		left := map[string]bool{}
		for n := range walkedRecords {
			left[nameOf(kind, n)] = true
		}
		err := k.read(s, func(name string) {
			maps.DeleteFunc(left, func(of string, _ bool) bool { return strings.Contains(name, of) })
		})
		if matches(k.files, file) {
			lost = slices.AppendSeq(lost, maps.Keys(left))
		} else if err != nil || len(left) > 0 {
			t.Errorf("%s: after damage to %q %v are lost: %v", kind, file, slices.Collect(maps.Keys(left)), err)
		}
	}
	return lost
}

// holds are computations and readers of a scheduler that stand still until a function returns.
var holds = map[string]func(s *service, still func() error) error{
	"a question": func(s *service, still func() error) error {
		config := func(_ *space.Space, now space.Config) (space.Config, error) {
			return now, errors.Join(still(), rollout.ErrState)
		}
		_, err := s.controller.WhatIf(context.Background(), "s", config)
		return err
	},
	"a proposal of a study": func(s *service, still func() error) error {
		return s.controller.Turn(context.Background(), "x", still)
	},
	"a reader of events": func(s *service, still func() error) error {
		_, err := s.store.ReplayEvents("s", func(string, workload.Event) error { return still() })
		return err
	},
	"a reader of rounds": func(s *service, still func() error) error {
		return s.store.Rounds(uidOf(s, "s"), 0, func(int64, []byte, error) bool { return still() == nil })
	},
	"a reader of reports": func(s *service, still func() error) error {
		return s.reports.List("s", reports.Key{}, func(*reports.Report) bool { return still() == nil })
	},
	"the receiver of a backup": func(s *service, still func() error) error {
		_, err := s.store.Backup(context.Background(), receiver(still))
		return err
	},
	"the making of a workload": func(s *service, still func() error) error { return s.workloads.Make(still) },
	"a reader of samples": func(s *service, still func() error) error {
		return s.samples.Read(context.Background(), "s", samples.Query{}, func(*telemetry.GPUSample) error {
			return still()
		})
	},
	"a reader of iterations": func(s *service, still func() error) error {
		return s.samples.Iterations(context.Background(), "s", 0, math.MaxInt64, func(*telemetry.Iteration) error {
			return still()
		})
	},
}

// receiver is a writer that stands still.
type receiver func() error

func (r receiver) Write(p []byte) (int, error) { return len(p), r() }

// TestBystanders: while a computation or a reader stands still, records of every keeper are stored and read.
func TestBystanders(t *testing.T) {
	s, log, stop, err := walked(t, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	registered(t, s)
	n := 0
	use := func() error {
		for _, kind := range slices.Sorted(maps.Keys(keepers)) {
			name := nameOf(kind, n)
			if err := keepers[kind].write(s, n, name); err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
			there := false
			err := keepers[kind].read(s, func(of string) { there = there || strings.Contains(of, name) })
			if err != nil || !there && n < walkedRecords { // or it reads the first ones
				return fmt.Errorf("%s: %s is not there: %w", kind, name, err)
			}
		}
		n++
		return nil
	}
	if err := use(); err != nil {
		t.Fatal(err, log)
	}
	for what, hold := range holds {
		held, release, ended := make(chan bool, 1), make(chan bool), make(chan error, 1)
		go func() {
			ended <- hold(s, func() error {
				select {
				case held <- true:
				default:
				}
				<-release
				return errors.New("enough")
			})
		}()
		select {
		case <-held:
		case err := <-ended:
			t.Fatalf("%s is not held: %v", what, err)
		}
		done := make(chan error, 1)
		go func() { done <- use() }()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("beside %s: %v", what, err)
			}
		case <-time.After(2 * time.Minute):
			t.Errorf("everyone waits for %s", what)
			close(release)
			<-done
			<-ended
			continue
		}
		close(release)
		<-ended
	}
}
