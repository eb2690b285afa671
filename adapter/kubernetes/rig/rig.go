// Package rig runs a Kubernetes control plane with Kueue or Volcano on this machine, for tests: etcd, kube-apiserver,
// the schedulers and their objects' definitions are the real ones, built from the module proxy; nodes and their GPUs
// are objects alone, and a driver simulates users and kubelets.
package rig

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/autosched/autosched/adapter/kubernetes/cluster"
	"github.com/autosched/autosched/client"
)

// Options describe a rig.
type Options struct {
	Dir     string // holds everything; if empty, a temporary folder that Close removes
	Nodes   int    // of 8 GPUs, called g0, g1 and so on; 8 if 0
	Kueue   bool   // runs Kueue
	Volcano bool   // runs Volcano
	Conf    string // Volcano's configuration; DefaultConf if empty
}

// DefaultConf is the configuration that Volcano's chart installs.
const DefaultConf = `actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
`

// users of the API server have a group and a token. Readers and tuners have no rights of their own.
var users = map[string]string{"admin": "system:masters", "gitops": "system:masters", "person": "system:masters",
	"reader": "readers", "tuner": "tuners"}

// Rig is a control plane that runs. Its methods are not for concurrent use, but for those that return clients.
type Rig struct {
	o         Options
	bin       string
	temporary bool
	ports     []int // of etcd, its peers, kube-apiserver, Kueue's metrics, Volcano's metrics and its health
	api       *child
	children  []*child
}

// Start runs a rig until the test ends. It skips the test where the programs are not built, but fails it where
// AUTOSCHED_REQUIRE_KUBERNETES is 1. A program that ends by itself fails the test.
func Start(t testing.TB, o Options) *Rig {
	t.Helper()
	if why := Missing(o); why != "" {
		if os.Getenv("AUTOSCHED_REQUIRE_KUBERNETES") == "1" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	r, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, c := range r.children {
			if why := c.ended(); why != "" {
				t.Errorf("a program ended by itself: %s", why)
			} else if t.Failed() {
				t.Logf("%s: %s", c.name, c.tail())
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// Open runs a rig and returns once its schedulers run. On an error nothing is left running.
func Open(ctx context.Context, o Options) (_ *Rig, err error) {
	r := &Rig{o: o}
	if r.bin, err = Bin(); err != nil {
		return nil, err
	}
	if r.o.Nodes == 0 {
		r.o.Nodes = 8
	}
	if r.o.Conf == "" {
		r.o.Conf = DefaultConf
	}
	if r.o.Dir == "" {
		r.temporary = true
		if r.o.Dir, err = os.MkdirTemp("", "autosched-rig-"); err != nil {
			return nil, fmt.Errorf("rig: %w", err)
		}
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("rig: %w", err), r.Close())
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := r.files(); err != nil {
		return nil, err
	}
	if err := again(ctx, func() error {
		r.killAll()
		return r.controlPlane(ctx)
	}); err != nil {
		return nil, err
	}
	if err := r.furnish(ctx); err != nil {
		return nil, err
	}
	return r, r.schedulers(ctx)
}

// Close ends the programs and removes a temporary folder.
func (r *Rig) Close() error {
	r.killAll()
	if r.temporary {
		return os.RemoveAll(r.o.Dir)
	}
	return nil
}

func (r *Rig) killAll() {
	for i := range r.children {
		r.children[len(r.children)-1-i].kill()
	}
	r.children, r.api = nil, nil
}

func (r *Rig) path(name string) string { return filepath.Join(r.o.Dir, name) }

// Conf is the path of Volcano's configuration.
func (r *Rig) Conf() string { return r.path("conf/volcano-scheduler.conf") }

// SetConf replaces Volcano's configuration, as a kubelet does: the file is never seen in part.
func (r *Rig) SetConf(text string) error {
	part := r.path("volcano-scheduler.conf.part")
	if err := os.WriteFile(part, []byte(text), 0o644); err != nil {
		return fmt.Errorf("rig: %w", err)
	}
	return os.Rename(part, r.Conf())
}

// files writes the keys, the tokens and the configurations.
func (r *Rig) files() error {
	if err := os.MkdirAll(filepath.Dir(r.Conf()), 0o755); err != nil {
		return err
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	var tokens bytes.Buffer
	for user, group := range users {
		fmt.Fprintf(&tokens, "%s-token,%s,%s,%s\n", user, user, user, group)
	}
	return errors.Join(r.SetConf(r.o.Conf), os.WriteFile(r.path("tokens.csv"), tokens.Bytes(), 0o600),
		os.WriteFile(r.path("accounts.key"), pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY",
			Bytes: x509.MarshalPKCS1PrivateKey(key)}), 0o600))
}

func (r *Rig) controlPlane(ctx context.Context) (err error) {
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	r.ports = append(ports, 0, 0, 0)
	client, peer := fmt.Sprintf("http://127.0.0.1:%d", r.ports[0]), fmt.Sprintf("http://127.0.0.1:%d", r.ports[1])
	if err := os.RemoveAll(r.path("etcd")); err != nil {
		return err
	}
	etcd, err := r.run("etcd", "--data-dir", r.path("etcd"), "--unsafe-no-fsync", "--log-level", "warn",
		"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
		"--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	if err != nil {
		return err
	}
	if err := until(ctx, etcd, func(ctx context.Context) error {
		return get(ctx, http.DefaultClient, client+"/readyz", io.Discard)
	}); err != nil {
		return err
	}
	if err := r.startAPI(ctx); err != nil {
		return err
	}
	for user := range users {
		if err := r.kubeconfig(user); err != nil {
			return err
		}
	}
	return nil
}

// again calls f until it succeeds, some times at most: a port that was free may be taken once a program listens.
func again(ctx context.Context, f func() error) error {
	for try := 1; ; try++ {
		err := f()
		if err == nil || try == 5 || !strings.Contains(err.Error(), "address already in use") ||
			!client.Sleep(ctx, time.Second) {
			return err
		}
	}
}

// StartAPI runs kube-apiserver, on the same port every time, and returns once it is ready.
func (r *Rig) StartAPI(ctx context.Context) error {
	return again(ctx, func() error {
		r.end(r.api)
		return r.startAPI(ctx)
	})
}

func (r *Rig) startAPI(ctx context.Context) (err error) {
	r.api, err = r.run("kube-apiserver",
		"--etcd-servers", fmt.Sprintf("http://127.0.0.1:%d", r.ports[0]),
		"--bind-address", "127.0.0.1", "--secure-port", fmt.Sprint(r.ports[2]), "--cert-dir", r.path("certs"),
		"--token-auth-file", r.path("tokens.csv"), "--authorization-mode", "RBAC",
		"--service-account-issuer", "https://rig.example.org",
		"--service-account-key-file", r.path("accounts.key"),
		"--service-account-signing-key-file", r.path("accounts.key"),
		"--service-cluster-ip-range", "198.51.100.0/24", "--endpoint-reconciler-type", "none",
		// Pods need no service accounts, and nodes are ready once they are created.
		"--disable-admission-plugins", "ServiceAccount,TaintNodesByCondition",
		"--enable-priority-and-fairness=false", "--profiling=false")
	if err != nil {
		return err
	}
	return until(ctx, r.api, func(ctx context.Context) error {
		client, err := rest.HTTPClientFor(r.Config("admin")) // the certificate may be written only now
		if err != nil {
			return err
		}
		return get(ctx, client, r.host()+"/readyz", io.Discard)
	})
}

// StopAPI ends kube-apiserver at once, as a crash does.
func (r *Rig) StopAPI() { r.end(r.api) }

// end kills a program, which need not run any more.
func (r *Rig) end(c *child) {
	c.kill()
	r.children = slices.DeleteFunc(r.children, func(other *child) bool { return other == c })
}

func (r *Rig) schedulers(ctx context.Context) error {
	if r.o.Kueue {
		if err := r.scheduler(ctx, []int{3}, r.KueueMetrics, "minimalkueue", func() []string {
			return []string{"--kubeconfig", r.Kubeconfig("admin"), "--metricsPort", fmt.Sprint(r.ports[3])}
		}); err != nil {
			return err
		}
	}
	if r.o.Volcano {
		health := func() string { return fmt.Sprintf("http://127.0.0.1:%d/healthz", r.ports[5]) }
		return r.scheduler(ctx, []int{4, 5}, health, "vc-scheduler", func() []string {
			return []string{"--kubeconfig", r.Kubeconfig("admin"), "--scheduler-conf", r.Conf(), "--leader-elect=false",
				"--enable-metrics", "--enable-healthz", "--cache-dumper=false",
				"--kube-api-qps", "2000", "--kube-api-burst", "2000",
				"--listen-address", fmt.Sprintf("127.0.0.1:%d", r.ports[4]),
				"--healthz-address", fmt.Sprintf("127.0.0.1:%d", r.ports[5])}
		})
	}
	return nil
}

// scheduler starts a scheduler on ports that are free now, of the given indices, and returns once its page answers.
func (r *Rig) scheduler(ctx context.Context, which []int, page func() string, name string,
	args func() []string) error {
	var c *child
	return again(ctx, func() error {
		r.end(c)
		ports, err := freePorts(len(which))
		if err != nil {
			return err
		}
		for i, port := range which {
			r.ports[port] = ports[i]
		}
		if c, err = r.run(name, args()...); err != nil {
			return err
		}
		return until(ctx, c, func(ctx context.Context) error {
			return get(ctx, http.DefaultClient, page(), io.Discard)
		})
	})
}

// KueueMetrics is the address of Kueue's metrics.
func (r *Rig) KueueMetrics() string { return fmt.Sprintf("http://127.0.0.1:%d/metrics", r.ports[3]) }

// VolcanoMetrics is the address of Volcano's metrics.
func (r *Rig) VolcanoMetrics() string { return fmt.Sprintf("http://127.0.0.1:%d/metrics", r.ports[4]) }

// run starts a program, which logs to a file of its name.
func (r *Rig) run(name string, args ...string) (*child, error) {
	// Volcano's socket is in the folder of the rig too.
	env := []string{"DEBUG_SOCKET_DIR=" + r.o.Dir}
	c, err := start(name, r.path(name+".log"), filepath.Join(r.bin, name), env, args...)
	if err == nil {
		r.children = append(r.children, c)
	}
	return c, err
}

func (r *Rig) host() string { return fmt.Sprintf("https://127.0.0.1:%d", r.ports[2]) }

// Config is how a user of the rig reaches the API server, as often as he wants.
func (r *Rig) Config(user string) *rest.Config {
	return &rest.Config{Host: r.host(), BearerToken: user + "-token", QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAFile: r.path("certs/apiserver.crt")}}
}

// As is how a user without a token reaches the API server, a service account say: the administrator speaks for him.
func (r *Rig) As(user string) *rest.Config {
	c := r.Config("admin")
	c.Impersonate.UserName = user
	return c
}

// Client is a user's client.
func (r *Rig) Client(user string) dynamic.Interface {
	c, err := cluster.Open(r.Config(user))
	if err != nil {
		panic(err) // Config is not one
	}
	return c
}

// Kubeconfig is the path of a user's configuration of kubectl.
func (r *Rig) Kubeconfig(user string) string { return r.path(user + ".kubeconfig") }

func (r *Rig) kubeconfig(user string) error {
	return clientcmd.WriteToFile(api.Config{CurrentContext: "rig",
		Clusters: map[string]*api.Cluster{"rig": {Server: r.host(),
			CertificateAuthority: r.path("certs/apiserver.crt")}},
		AuthInfos: map[string]*api.AuthInfo{user: {Token: user + "-token"}},
		Contexts:  map[string]*api.Context{"rig": {Cluster: "rig", AuthInfo: user}},
	}, r.Kubeconfig(user))
}

// until calls f until it succeeds; c must run meanwhile.
func until(ctx context.Context, c *child, f func(context.Context) error) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		err := f(ctx)
		if err == nil {
			return nil
		}
		if why := c.ended(); why != "" {
			return errors.New(why)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w: %s", c.name, err, c.tail())
		case <-tick.C:
		}
	}
}

func get(ctx context.Context, client *http.Client, url string, to io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	_, err = io.Copy(to, resp.Body)
	return err
}
