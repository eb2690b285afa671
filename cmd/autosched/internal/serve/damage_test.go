package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/service/store"
)

// TestDamagedServices damages a file of a service, its store, certificates and roles, and starts it on them as a
// process. It may refuse to start, by an error that names the file; otherwise it serves the written values and runs
// until it is stopped. AUTOSCHED_DAMAGED is the number of services.
func TestDamagedServices(t *testing.T) {
	t.Parallel()
	testshared.Full(t)
	services := 30
	if testing.Short() {
		services = 20
	}
	tally := testshared.NewTally(t, "AUTOSCHED_DAMAGED", services)
	k := &killed{t: t, dir: t.TempDir(), batches: map[int]*pb.IngestEventsRequest{}, acked: map[int]bool{},
		last: map[int]bool{}, of: map[string]*killedScheduler{}, counts: map[string]int{}}
	for i := range 3 {
		k.life(i == 0)
	}
	if t.Failed() {
		return
	}
	truth := map[string]string{} // hashes by name
	r, err := store.OpenReader(k.dir)
	if err != nil {
		t.Fatal(err)
	}
	saved, _, _, err := r.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range saved {
		for _, c := range s.Configurations {
			truth[fmt.Sprintf("schedulers/%s/configurations/%d", s.Scheduler.ID, c.Revision)] = c.Hash
		}
	}
	_ = r.Close()
	pki := filepath.Join(t.TempDir(), "pki")
	if err := clitest.RunClient(t.Context(), newCertsCmd(), "", &strings.Builder{}, pki); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, pattern := range []string{k.dir + "/*.db", k.dir + "/audit*", pki + "/server.*", pki + "/ca.pem",
		pki + "/roles.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			if files[filepath.Base(path)], err = os.ReadFile(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	names := slices.Sorted(maps.Keys(files))
	outcomes := map[string]int{}
	for i := tally.Done(); tally.Left() > 0; i++ {
		rng := rand.New(rand.NewPCG(2, uint64(i)))
		d := damagedService{t: t, what: names[i%len(names)], pki: pki, truth: truth, outcomes: outcomes,
			dir: t.TempDir()}
		if i%3 == 0 {
			d.what = "config.db"
		}
		for name, data := range files {
			if name == d.what {
				data, d.how = harmFile(rng, slices.Clone(data))
			}
			if err := os.WriteFile(filepath.Join(d.dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		d.run()
		tally.Add(1)
		_ = os.RemoveAll(d.dir)
	}
	services = tally.Here()
	t.Logf("%d services: %v", services, outcomes)
	if services < 20 {
		return // too few for both
	}
	if outcomes["served"] < services/2 || outcomes["refused to start"] == 0 {
		t.Error("the damage is too large or too small for the test to say something")
	}
}

type damagedService struct {
	t         *testing.T
	dir       string // of the store, certificates and roles
	pki       string // whole, for the client
	what, how string
	truth     map[string]string
	outcomes  map[string]int
}

func (d *damagedService) errorf(format string, args ...any) {
	d.t.Helper()
	d.t.Errorf("%s, %s: "+format, append([]any{d.what, d.how}, args...)...)
}

func (d *damagedService) run() {
	in := func(name string) string { return filepath.Join(d.dir, name) }
	child := exec.Command(os.Args[0], "serve", "--dir", d.dir, "--listen", "127.0.0.1:0", "--workers", "1",
		"--tls-cert", in("server.pem"), "--tls-key", in("server.key"), "--client-ca", in("ca.pem"),
		"--roles", in("roles.yaml"))
	child.Env = append(os.Environ(), "AUTOSCHED_TEST_MAIN=1")
	stderr, err := child.StderrPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		d.t.Fatal(err)
	}
	defer time.AfterFunc(2*time.Minute, func() { _ = child.Process.Kill() }).Stop()
	address, log := make(chan string, 1), ""
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(address)
		re := regexp.MustCompile(`msg=serving address=(\S+)`)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			log += lines.Text() + "\n"
			if m := re.FindStringSubmatch(lines.Text()); m != nil {
				address <- m[1]
			}
		}
	}()
	server, serves := <-address
	if serves {
		d.outcomes["served"]++
		d.use(server)
		_ = child.Process.Signal(syscall.SIGTERM)
	}
	<-ended
	err = child.Wait()
	code := child.ProcessState.ExitCode()
	dead := code < 0 || strings.Contains(log, "\ngoroutine ")
	switch {
	case dead, serves && code != 0:
		d.errorf("the service died: %v\n%s", err, log)
	case serves:
	case code == 0 || !strings.Contains(log, strings.TrimSuffix(d.what, filepath.Ext(d.what))):
		d.errorf("the service does not start and does not say that it is this file: %v\n%s", err, log)
	default:
		d.outcomes["refused to start"]++
	}
}

// use reads all resources of the service and sends it an event, which waits until the history is read.
func (d *damagedService) use(server string) {
	conn, err := (&cli.ConnectFlags{Server: server, CA: filepath.Join(d.pki, "ca.pem"),
		Cert: filepath.Join(d.pki, "admin.pem"), Key: filepath.Join(d.pki, "admin.key")}).Dial()
	if err != nil {
		d.t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
	defer cancel()
	config, tuning := pb.NewConfigurationServiceClient(conn), pb.NewTuningServiceClient(conn)
	check := func(c *pb.Configuration) {
		values := map[string]any{}
		for name, v := range c.GetParameters() {
			values[name] = v.AsInterface()
		}
		text, err := json.Marshal(values)
		if err != nil {
			d.t.Fatal(err)
		}
		read, err := tiresiasSpace.ParseJSON(text)
		if err != nil || read.Hash() != c.GetContentHash() || d.truth[c.GetName()] != c.GetContentHash() {
			d.errorf("%s is %s with SHA-256 %s, %v", c.GetName(), text, c.GetContentHash(), err)
		}
	}
	refused := func(err error) bool {
		switch status.Code(err) {
		case codes.OK:
			return false
		case codes.Internal, codes.Unknown, codes.DeadlineExceeded, codes.Canceled:
			d.errorf("%v", err)
		}
		d.outcomes[status.Code(err).String()]++
		return true
	}
	for _, id := range []string{"auto", "manual"} {
		name := "schedulers/" + id
		got, err := config.GetCurrentConfiguration(ctx, &pb.GetCurrentConfigurationRequest{Name: name})
		if refused(err) {
			continue
		}
		check(got.GetConfiguration())
		list, err := config.ListConfigurations(ctx, &pb.ListConfigurationsRequest{Parent: name, PageSize: 1000})
		if !refused(err) {
			for _, c := range list.GetConfigurations() {
				if c.GetState() != pb.Configuration_LOST {
					check(c)
				}
			}
		}
		stream, err := tuning.IngestEvents(ctx)
		if refused(err) {
			continue
		}
		event := &pb.Event{EventId: "new", Kind: pb.Event_SUBMITTED,
			SchedulerTime: timestamppb.New(time.Date(2024, 1, 5, 0, 0, 0, 0, time.UTC)),
			Job:           &pb.JobDetails{JobId: "new", MilliGpus: 1000}}
		_ = stream.Send(&pb.IngestEventsRequest{Parent: name, Events: []*pb.Event{event}})
		_, err = stream.Recv()
		refused(err)
	}
}

// harmFile damages a file in one of the ways that disks do.
func harmFile(rng *rand.Rand, data []byte) (harmed []byte, how string) {
	block := min(4096, len(data))
	at := rng.IntN(len(data)/block) * block
	switch rng.IntN(5) {
	case 0:
		bit := rng.IntN(len(data))
		data[bit] ^= 1 << rng.IntN(8)
		return data, fmt.Sprint("a bit of byte ", bit)
	case 1:
		clear(data[at : at+block])
		return data, fmt.Sprint("zeros at ", at)
	case 2:
		n := rng.IntN(len(data))
		return data[:n], fmt.Sprint("cut at ", n)
	case 3:
		for i := range min(512, block) {
			data[at+i] = byte(rng.Uint32())
		}
		return data, fmt.Sprint("a random sector at ", at)
	}
	other := rng.IntN(len(data)/block) * block
	copy(data[at:at+block], data[other:other+block])
	return data, fmt.Sprintf("a copy of %d at %d", other, at)
}
