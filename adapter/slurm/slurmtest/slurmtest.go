// Package slurmtest runs a Slurm of its own on this machine: munged, MariaDB, slurmdbd,
// slurmctld and emulated nodes, with private folders, keys and ports. Scheduling and accounting
// are Slurm's own; only GPUs are emulated, as device files that jobs do not open.
package slurmtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"time"
)

// Packages are the packages of Debian that a cluster needs.
const Packages = "slurmctld slurmd slurm-client slurmdbd munge mariadb-server"

// Options describe a cluster.
type Options struct {
	// Dir holds everything, and every user must be able to enter it; if empty, it is a temporary one that Stop removes.
	Dir string
	// Name is that of the cluster; "emulated" if empty.
	Name string
	// Nodes is the number of nodes of 8 GPUs, 64 CPUs and 500 GB, called g1, g2 and so on; 16 if 0.
	Nodes int
	// Hardware are the nodes, instead, where they differ. g1 is the first of them.
	Hardware []Hardware
	// Topology is the content of topology.conf, with lines of Conf that use it.
	Topology string
	// Conf are further lines of slurm.conf, before the include line. PriorityType is
	// priority/multifactor unless they say otherwise.
	Conf string
	// Include is the content of the included file autosched.conf.
	Include string
	// Accounts have users, who must exist on this machine, and shares.
	Accounts []Account
	// QOS are qualities of service with their priorities; any account may use them.
	QOS map[string]int
	// Backup is a second slurmctld, called spare, which stands by.
	Backup bool
}

// Hardware is a number of equal nodes.
type Hardware struct {
	Nodes int
	Is    string // as NodeName has it in slurm.conf: CPUs, RealMemory, Gres of 8 GPUs
}

// Account is an account of Slurm.
type Account struct {
	Name  string
	Share int
	Users []string
}

// Missing names the parts that this machine lacks to run a cluster; empty if none.
func Missing() string {
	if os.Geteuid() != 0 {
		return "the emulated Slurm runs several daemons as several users, and needs root"
	}
	var missing []string
	for _, program := range []string{"slurmctld", "slurmd", "slurmdbd", "sbatch", "munged", "mariadbd",
		"mariadb-install-db", "mariadb"} {
		if _, err := lookPath(program); err != nil {
			missing = append(missing, program)
		}
	}
	if len(missing) > 0 {
		return strings.Join(missing, ", ") + " not found: install " + Packages
	}
	return ""
}

// lookPath finds a program, also among the administrators'.
func lookPath(program string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	path := "/usr/sbin/" + program
	_, err := os.Stat(path)
	return path, err
}

// Cluster is a running Slurm.
type Cluster struct {
	o         Options
	port      int // of slurmctld; others follow
	host      string
	daemons   []*daemon
	ctld      *daemon
	dbd       *daemon
	temporary bool // the folder
}

// Conf is the path of slurm.conf.
func (c *Cluster) Conf() string { return c.path("slurm.conf") }

// Include is the path of the file that slurm.conf includes last.
func (c *Cluster) Include() string { return c.path("autosched", "autosched.conf") }

// Log is the path of slurmctld's log.
func (c *Cluster) Log() string { return c.path("slurmctld.log") }

func (c *Cluster) path(names ...string) string {
	return filepath.Join(append([]string{c.o.Dir}, names...)...)
}

// Start brings a cluster up and returns once jobs can be submitted. On an error nothing is left running.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if why := Missing(); why != "" {
		return nil, errors.New(why)
	}
	if o.Nodes == 0 && o.Hardware == nil {
		o.Nodes = 16
	}
	if o.Hardware == nil {
		o.Hardware = []Hardware{{o.Nodes, "CPUs=64 RealMemory=500000 Gres=gpu:8"}}
	}
	o.Nodes = 0
	for _, h := range o.Hardware {
		o.Nodes += h.Nodes
	}
	if o.Name == "" {
		o.Name = "emulated"
	}
	var err error
	temporary := o.Dir == ""
	if temporary {
		o.Dir, err = os.MkdirTemp("", "slurm")
	} else {
		o.Dir, err = filepath.Abs(o.Dir)
	}
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	host, _, _ = strings.Cut(host, ".")
	c := &Cluster{o: o, host: host, temporary: temporary}
	if c.port, err = freePorts(portNodes + o.Nodes); err != nil {
		return nil, err
	}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// Ports from that of slurmctld on.
const (
	portSlurmd = iota + 1
	portDBD
	portSQL
	portNodes // one each
)

// freePorts finds n ports in a row, below the ones that the system gives to connections.
func freePorts(n int) (int, error) {
	for base := 20000 + os.Getpid()%100*100; base < 32000; base += 50 {
		if portsAreFree(base, n) {
			return base, nil
		}
	}
	return 0, fmt.Errorf("slurmtest: no %d ports in a row are free between 20000 and 32000", n)
}

func portsAreFree(base, n int) bool {
	for p := base; p < base+n; p++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p))
		if err != nil {
			return false
		}
		l.Close()
	}
	return true
}

func (c *Cluster) start(ctx context.Context) error {
	if err := c.folders(); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{c.startMunge, c.startSQL, c.StartAccounting, c.accounts,
		c.StartController, c.startBackup, c.startNodes} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return c.until(ctx, "nodes are idle", func() error {
		out, err := c.Run(ctx, "sinfo", "-h", "-o", "%D", "-t", "idle")
		if err == nil && strings.TrimSpace(string(out)) != fmt.Sprint(c.o.Nodes) {
			err = fmt.Errorf("of %d, these are idle: %q", c.o.Nodes, out)
		}
		return err
	})
}

// folders makes all folders and files.
func (c *Cluster) folders() error {
	for _, dir := range []string{"", "autosched", "state", "spool", "run"} {
		if err := os.MkdirAll(c.path(dir), 0o755); err != nil {
			return err
		}
		if err := os.Chmod(c.path(dir), 0o755); err != nil {
			return err
		}
	}
	munge, err := user.Lookup("munge")
	if err != nil {
		return err
	}
	if err := c.privateFolder("munge", munge, 0o755); err != nil {
		return err
	}
	key := []byte(strings.Repeat("an emulated cluster's key ", 40))
	if err := os.WriteFile(c.path("munge", "key"), key[:1024], 0o400); err != nil {
		return err
	}
	if err := chown(c.path("munge", "key"), munge); err != nil {
		return err
	}
	mysql, err := user.Lookup("mysql")
	if err != nil {
		return err
	}
	if err := c.privateFolder("sql", mysql, 0o755); err != nil {
		return err
	}
	conf := fmt.Sprintf(slurmConf, c.o.Name, c.host, c.path("munge", "socket"), c.port, c.port+portSlurmd,
		c.o.Dir, c.port+portDBD, c.o.Nodes)
	gres, first := "", 1
	for _, h := range c.o.Hardware {
		names, port := fmt.Sprintf("g[%d-%d]", first, first+h.Nodes-1), c.port+portNodes+first-1
		conf += fmt.Sprintf("NodeName=%s NodeHostname=%s NodeAddr=127.0.0.1 Port=[%d-%d] %s State=UNKNOWN\n",
			names, c.host, port, port+h.Nodes-1, h.Is)
		if _, kind, typed := strings.Cut(h.Is, "Gres=gpu:"); typed && strings.Count(kind, ":") == 1 {
			names += " Type=" + kind[:strings.Index(kind, ":")]
		}
		gres += "NodeName=" + names + " Name=gpu File=/dev/tty[0-7]\n"
		first += h.Nodes
	}
	if c.o.Backup {
		conf += "SlurmctldHost=spare(127.0.0.2)\nCommunicationParameters=NoCtldInAddrAny\n"
	}
	if !strings.Contains(c.o.Conf, "PriorityType=") {
		conf += "PriorityType=priority/multifactor\n"
	}
	conf += c.o.Conf + "\ninclude autosched.conf\n"
	link := c.path("autosched.conf")
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink("autosched/autosched.conf", link); err != nil {
		return err
	}
	dbd := fmt.Sprintf(slurmdbdConf, c.host, c.port+portDBD, c.path("munge", "socket"), c.o.Dir, c.port+portSQL)
	for path, text := range map[string]string{"slurm.conf": conf, "autosched/autosched.conf": c.o.Include,
		"gres.conf": gres, "topology.conf": c.o.Topology, "job.sh": "#!/bin/sh\nexec sleep $1\n"} {
		if err := os.WriteFile(c.path(path), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(c.path("slurmdbd.conf"), []byte(dbd), 0o600)
}

func (c *Cluster) privateFolder(name string, owner *user.User, mode os.FileMode) error {
	if err := os.MkdirAll(c.path(name), mode); err != nil {
		return err
	}
	return chown(c.path(name), owner)
}

const slurmConf = `ClusterName=%[1]s
SlurmctldHost=%[2]s(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=%[3]s
CredType=cred/munge
SlurmctldPort=%[4]d
SlurmdPort=%[5]d
StateSaveLocation=%[6]s/state
SlurmdSpoolDir=%[6]s/spool/%%n
SlurmctldPidFile=%[6]s/run/slurmctld.pid
SlurmdPidFile=%[6]s/run/slurmd.%%n.pid
SlurmctldLogFile=%[6]s/slurmctld.log
SlurmdLogFile=%[6]s/spool/slurmd.%%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
SlurmdTimeout=600
KillWait=2
MinJobAge=300
SlurmdParameters=config_overrides
GresTypes=gpu
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=%[7]d
AccountingStoragePass=%[3]s
AccountingStorageTRES=gres/gpu
AccountingStorageEnforce=associations,limits,qos
JobRequeue=1
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
PartitionName=train Nodes=g[1-%[8]d] Default=YES MaxTime=7-0 DefaultTime=10 \
 TRESBillingWeights=GRES/gpu=1.0 State=UP
`

const slurmdbdConf = `AuthType=auth/munge
AuthInfo=socket=%[3]s
DbdHost=%[1]s
DbdAddr=127.0.0.1
DbdPort=%[2]d
SlurmUser=root
LogFile=%[4]s/slurmdbd.log
PidFile=%[4]s/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=%[5]d
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
`

func (c *Cluster) startMunge(ctx context.Context) error {
	dir := c.path("munge")
	_, err := c.launch("munged", "munge", nil, "munged", "--foreground", "--force", "--key-file", dir+"/key",
		"--socket", dir+"/socket", "--pid-file", dir+"/pid", "--log-file", dir+"/log", "--seed-file", dir+"/seed")
	if err != nil {
		return err
	}
	return c.until(ctx, "munged answers", func() error {
		_, err := os.Stat(dir + "/socket")
		return err
	})
}

func (c *Cluster) startSQL(ctx context.Context) error {
	dir := c.path("sql")
	if out, err := c.command(ctx, "mariadb-install-db", "--no-defaults",
		"--auth-root-authentication-method=normal", "--skip-test-db",
		"--user=mysql", "--datadir="+dir+"/data").CombinedOutput(); err != nil {
		return fmt.Errorf("mariadb-install-db: %w: %s", err, out)
	}
	if _, err := c.launch("mariadbd", "mysql", nil, "mariadbd", "--no-defaults", "--datadir="+dir+"/data",
		"--socket="+dir+"/socket", "--bind-address=127.0.0.1", fmt.Sprintf("--port=%d", c.port+portSQL),
		"--pid-file="+dir+"/pid", "--skip-name-resolve", "--innodb-flush-log-at-trx-commit=0",
		"--innodb-lock-wait-timeout=900", "--innodb-log-file-size=16M"); err != nil {
		return err
	}
	return c.until(ctx, "MariaDB answers", func() error {
		out, err := c.command(ctx, "mariadb", "--no-defaults", "--socket="+dir+"/socket", "--user=root", "-e",
			"create database if not exists slurm_acct_db; create user if not exists slurm@'127.0.0.1' identified by 'slurm'; "+
				"grant all on slurm_acct_db.* to slurm@'127.0.0.1'").CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	})
}

// StartAccounting starts slurmdbd and returns once it answers.
func (c *Cluster) StartAccounting(ctx context.Context) (err error) {
	if c.dbd, err = c.launch("slurmdbd", "root", c.dbd, "slurmdbd", "-D"); err != nil {
		return err
	}
	return c.until(ctx, "slurmdbd answers", func() error {
		_, err := c.Run(ctx, "sacctmgr", "-nP", "show", "cluster")
		return err
	})
}

// accounts makes accounts, users and QOS.
func (c *Cluster) accounts(ctx context.Context) error {
	names := []string{"normal"}
	calls := [][]string{{"add", "cluster", c.o.Name}}
	for name, priority := range c.o.QOS {
		verb := []string{"add", "qos", name}
		if name == "normal" {
			verb = []string{"modify", "qos", name, "set"}
		} else {
			names = append(names, name)
		}
		calls = append(calls, append(verb, fmt.Sprintf("priority=%d", priority)))
	}
	calls = append(calls, []string{"modify", "cluster", c.o.Name, "set", "qos=" + strings.Join(names, ",")},
		[]string{"add", "account", "root-jobs", "cluster=" + c.o.Name},
		[]string{"add", "user", "root", "account=root-jobs", "cluster=" + c.o.Name})
	for _, a := range c.o.Accounts {
		calls = append(calls,
			[]string{"add", "account", a.Name, "cluster=" + c.o.Name, fmt.Sprintf("fairshare=%d", max(1, a.Share))},
			[]string{"add", "user", strings.Join(a.Users, ","), "account=" + a.Name, "cluster=" + c.o.Name})
	}
	for _, args := range calls {
		if _, err := c.Run(ctx, "sacctmgr", append([]string{"-i"}, args...)...); err != nil {
			return err
		}
	}
	return nil
}

// StartController starts slurmctld and returns once it answers.
func (c *Cluster) StartController(ctx context.Context) (err error) {
	if c.ctld, err = c.launch("slurmctld", "root", c.ctld, "slurmctld", "-D"); err != nil {
		return err
	}
	return c.until(ctx, "slurmctld answers", func() error {
		out, err := c.Run(ctx, "scontrol", "ping")
		if err == nil && !strings.Contains(string(out), "UP") {
			err = errors.New(string(out))
		}
		return err
	})
}

// spare is a slurmctld on a host of another name, which sees the same folders but for its pid.
const spare = own + `hostname spare && (cat /etc/hosts && echo 127.0.0.2 spare) >"$1/hosts" &&
mount --bind "$1/hosts" /etc/hosts && mount -t tmpfs tmpfs "$1/run" && exec "$2" -D -L "$1/spare.log"`

func (c *Cluster) startBackup(ctx context.Context) error {
	if !c.o.Backup {
		return nil
	}
	program, err := lookPath("slurmctld")
	if err != nil {
		return err
	}
	if _, err := c.launch("slurmctld spare", "root", nil, "unshare", "-mu", "--propagation=unchanged", "sh", "-c",
		spare, "sh", c.o.Dir, program); err != nil {
		return err
	}
	return c.until(ctx, "the backup answers", func() error {
		out, err := c.Run(ctx, "scontrol", "ping")
		if err == nil && strings.Contains(string(out), "DOWN") {
			err = errors.New(string(out))
		}
		return err
	})
}

func (c *Cluster) startNodes(context.Context) error {
	for n := 1; n <= c.o.Nodes; n++ {
		node := fmt.Sprint("g", n)
		if _, err := c.launch("slurmd "+node, "root", nil, "slurmd", "-D", "-N", node); err != nil {
			return err
		}
	}
	return nil
}

// until waits for a condition, at most two minutes.
func (c *Cluster) until(ctx context.Context, what string, condition func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		err := condition()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("slurmtest: waiting until %s: %w", what, err)
		case <-time.After(100 * time.Millisecond):
		}
		if d := c.fallen(); d != nil && d != c.ctld {
			return fmt.Errorf("slurmtest: waiting until %s: %s ended: %s", what, d.name, d.said())
		}
	}
}

// TB is the part of a testing.TB that Start needs.
type TB interface {
	Helper()
	Skip(...any)
	Fatal(...any)
}

// Full reports whether tests run all that they can, as under make slurm, rather than a minute's share.
func Full() bool { return os.Getenv("AUTOSCHED_SLURM") == "full" }

// Require skips a test unless AUTOSCHED_SLURM is set and the machine can run a cluster. Where
// AUTOSCHED_REQUIRE_SLURM is 1, a machine that lacks it fails the test.
func Require(t TB) {
	t.Helper()
	if os.Getenv("AUTOSCHED_SLURM") == "" {
		t.Skip("an emulated Slurm runs under make slurm")
	}
	if why := Missing(); why != "" {
		if os.Getenv("AUTOSCHED_REQUIRE_SLURM") == "1" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
}
