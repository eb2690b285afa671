package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/autosched/autosched/adapter/kubernetes/apply"
	"github.com/autosched/autosched/adapter/kubernetes/cluster"
	"github.com/autosched/autosched/adapter/kubernetes/rig"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
)

// account is that of the manifests.
const account = "system:serviceaccount:autosched:autosched-kube"

// deployed creates queues and the manifests of the adapter, and returns the kubeconfig of their account.
func deployed(t *testing.T, r *rig.Rig, queues string) (kubeconfig string) {
	t.Helper()
	for _, path := range []string{testshared.Path(t, "golden", "kubernetes", "queues", queues), "autosched-kube.yaml",
		"autosched-kube-reader.yaml", "autosched-kube-tuner.yaml", "autosched-kube-policy.yaml"} {
		if !filepath.IsAbs(path) {
			path = filepath.Join(testshared.Root(t), "deploy", "kubernetes", path)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Create(t.Context(), text); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	config, err := clientcmd.LoadFromFile(r.Kubeconfig("admin"))
	if err != nil {
		t.Fatal(err)
	}
	config.AuthInfos["admin"].Impersonate = account
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// TestLiveService: a cluster is described, registered and tuned by the service with the rights of the manifests.
// A proposal that an operator approves is put in force, then the choice of a round; each is acknowledged once it is
// read back, taken back by the service, and given back by release.
func TestLiveService(t *testing.T) {
	r := rig.Start(t, rig.Options{Kueue: true})
	const namespace = "{apiVersion: v1, kind: Namespace, metadata: {name: kueue-system}}"
	if err := r.Create(t.Context(), []byte(namespace)); err != nil {
		t.Fatal(err)
	}
	kubeconfig := deployed(t, r, "kueue.strict.json")
	dir := t.TempDir()
	program := filepath.Join(dir, "autosched")
	build := exec.Command("go", "build", "-o", program, "./cmd/autosched")
	build.Dir = testshared.Root(t)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	site, pki := filepath.Join(dir, "site"), filepath.Join(dir, "pki")
	code, out, errs := clitest.Run("init", "--scheduler", "kueue", "--kubeconfig", kubeconfig, "--out", site)
	if code != 0 {
		t.Fatal(out, errs)
	}
	registration := filepath.Join(site, "scheduler.json")
	only(t, registration, "queueingStrategy")

	server := ""
	client := func(name string, args ...string) []string {
		return append(args, "--server", server, "--tls-ca", filepath.Join(pki, "ca.pem"), "--tls-cert",
			filepath.Join(pki, name+".pem"), "--tls-key", filepath.Join(pki, name+".key"))
	}
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(program, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
		return string(out)
	}
	operator := func(args ...string) string {
		t.Helper()
		return run(client("operator", args...)...)
	}
	run("admin", "certs", pki, "--id", "kubernetes")
	var served clitest.LockedBuffer
	serve := exec.Command(program, "serve", "--dir", filepath.Join(dir, "store"), "--listen", "127.0.0.1:0",
		"--tls-cert", filepath.Join(pki, "server.pem"), "--tls-key", filepath.Join(pki, "server.key"),
		"--client-ca", filepath.Join(pki, "ca.pem"), "--roles", filepath.Join(pki, "roles.yaml"))
	serve.Stderr = &served
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = serve.Process.Kill(); _ = serve.Wait() })
	await(t, "the service", func() bool {
		m := regexp.MustCompile(`msg=serving address=(\S+)`).FindStringSubmatch(served.String())
		if m != nil {
			server = m[1]
		}
		return m != nil
	})
	run(client("admin", "scheduler", "register", registration)...)
	operator("scheduler", "update", "kubernetes", "--adoption", "paper", "--budget", "8", "--guard", "off",
		"--rollback-hold", "off", "--flap-window", "off")

	var log clitest.LockedBuffer
	adapt := func(mode string) (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan int)
		go func() {
			ended <- cli.Run(ctx, newRoot(), client("scheduler-kubernetes", "run", "--scheduler", "kueue", "--id",
				"kubernetes", "--kubeconfig", kubeconfig, "--mode", mode, "--lease-namespace", "autosched", "--poll-interval", "1s",
				"--hand-over", "spec.queueingStrategy"), io.Discard, &log)
		}()
		return func() {
			cancel()
			if code := <-ended; code != 0 {
				t.Errorf("exit %d: %s", code, log.String())
			}
		}
	}
	conn, err := (&cli.ConnectFlags{Server: server, CA: filepath.Join(pki, "ca.pem"),
		Cert: filepath.Join(pki, "viewer.pem"), Key: filepath.Join(pki, "viewer.key")}).Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	defer func() {
		if t.Failed() {
			t.Logf("%s\n%s\n%s", operator("scheduler", "config", "list", "kubernetes"), log.String(), served.String())
		}
	}()
	// runs waits until the service knows that a revision runs, which every queue must have by then.
	runs := func(revision int64, strategy string) {
		t.Helper()
		await(t, fmt.Sprint("revision ", revision), func() bool {
			s, err := pb.NewTuningServiceClient(conn).GetScheduler(t.Context(),
				&pb.GetSchedulerRequest{Name: "schedulers/kubernetes"})
			if err != nil {
				t.Fatal(err)
			}
			of := s.GetStatus().GetInstances()
			return len(of) == 1 && of[0].GetReportedRevision() == revision && len(of[0].GetEffectiveParameters()) == 0
		})
		for _, q := range queues(t, r) {
			mark := q.GetAnnotations()["autosched.dev/applied"]
			if got := q.Object["spec"].(map[string]any)["queueingStrategy"]; got != strategy ||
				!strings.Contains(mark, fmt.Sprintf(`"revision":%d,`, revision)) {
				t.Errorf("revision %d: %s is %v by %s", revision, q.GetName(), got, mark)
			}
		}
	}

	// One job waits for all GPUs, and keeps those behind it from the free ones.
	jobs := []rig.Job{{Name: "first", Queue: "tenant-0", Pods: 4, GPUs: 8, Run: time.Hour},
		{Name: "wide", Queue: "tenant-0", Pods: 8, GPUs: 8, Run: time.Hour, At: time.Second}}
	for i := range 12 {
		jobs = append(jobs, rig.Job{Name: fmt.Sprint("small-", i), Queue: "tenant-0", Pods: 1, GPUs: 4, Run: time.Hour,
			At: 2 * time.Second})
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { _, _ = rig.Driver{Client: r.Client("admin"), Kueue: true}.Run(ctx, jobs) })

	stop := adapt("recommend")
	await(t, "a proposal", func() bool {
		args := client("operator", "scheduler", "rounds", "trigger", "kubernetes")
		out, _ := exec.Command(program, args...).CombinedOutput()
		return strings.Contains(string(out), "propos")
	})
	if q := queues(t, r)[0]; q.GetAnnotations()["autosched.dev/applied"] != "" {
		t.Errorf("a proposal is in force: %v", q.Object)
	}
	operator("scheduler", "config", "approve", "kubernetes")
	runs(2, "BestEffortFIFO")
	operator("scheduler", "config", "rollback", "kubernetes")
	runs(3, "StrictFIFO")
	stop()

	operator("scheduler", "update", "kubernetes", "--mode", "auto")
	stop = adapt("apply")
	operator("scheduler", "rounds", "trigger", "kubernetes")
	runs(4, "BestEffortFIFO")
	stop()
	code, out, errs = clitest.Run("release", "--scheduler", "kueue", "--kubeconfig", kubeconfig, "--restore")
	if code != 0 {
		t.Errorf("%d %s%s", code, out, errs)
	}
	for _, q := range queues(t, r) {
		if got := q.Object["spec"].(map[string]any)["queueingStrategy"]; got != "StrictFIFO" {
			t.Errorf("%s is %v", q.GetName(), got)
		}
		for _, m := range q.GetManagedFields() {
			if m.Manager == apply.Manager {
				t.Errorf("%s has fields of the adapter", q.GetName())
			}
		}
	}
}

func queues(t *testing.T, r *rig.Rig) []unstructured.Unstructured {
	t.Helper()
	s, _ := cluster.Find("kueue")
	all, err := r.Client("admin").Resource(s.Queues.WithVersion("v1beta2")).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return all.Items
}

// only leaves one parameter in a registration.
func only(t *testing.T, path, id string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var s pb.Scheduler
	if err := protojson.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	s.Spec.Constraints = nil
	s.Spec.Parameters = slices.DeleteFunc(s.Spec.Parameters, func(p *pb.ParameterSpec) bool {
		return p.GetParameterId() != id
	})
	if text, err = protojson.Marshal(&s); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
