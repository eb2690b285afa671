package slurmtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// daemon is a process of the cluster.
type daemon struct {
	name  string
	cmd   *exec.Cmd
	log   string // path of its output
	ended chan struct{}
}

func (d *daemon) up() bool {
	if d == nil {
		return false
	}
	select {
	case <-d.ended:
		return false
	default:
		return true
	}
}

// said is the end of its output.
func (d *daemon) said() string {
	text, _ := os.ReadFile(d.log) // an absent one says nothing
	return string(text[max(0, len(text)-1000):])
}

// launch starts a daemon in the foreground as a user. It takes the place of an ended one.
func (c *Cluster) launch(name, as string, before *daemon, program string, args ...string) (*daemon, error) {
	if before.up() {
		return before, nil
	}
	path, err := lookPath(program)
	if err != nil {
		return nil, err
	}
	d := &daemon{name: name, log: c.path("run", strings.ReplaceAll(name, " ", "-")+".out"), ended: make(chan struct{})}
	out, err := os.OpenFile(d.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	d.cmd = exec.Command(path, args...)
	d.cmd.Env = append(c.Env(), mark+c.o.Dir)
	d.cmd.Stdout, d.cmd.Stderr = out, out
	d.cmd.Dir = "/"
	// A cluster does not outlive its program.
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if as != "root" {
		if d.cmd.SysProcAttr.Credential, err = Credential(as); err != nil {
			return nil, err
		}
	}
	if err := d.cmd.Start(); err != nil {
		return nil, fmt.Errorf("slurmtest: %s: %w", name, err)
	}
	go func() {
		_ = d.cmd.Wait() // how it ended is in its log
		close(d.ended)
	}()
	c.daemons = append(slices.DeleteFunc(c.daemons, func(d *daemon) bool { return d == before }), d)
	return d, nil
}

// fallen is a daemon that ended by itself, nil if there is none.
func (c *Cluster) fallen() *daemon {
	for _, d := range c.daemons {
		if !d.up() {
			return d
		}
	}
	return nil
}

// end signals a daemon and waits until it has ended; after a time it is killed.
func (d *daemon) end(signal syscall.Signal) {
	if !d.up() {
		return
	}
	_ = d.cmd.Process.Signal(signal) // it may have ended meanwhile
	select {
	case <-d.ended:
	case <-time.After(10 * time.Second):
		_ = d.cmd.Process.Kill()
		<-d.ended
	}
}

// KillController ends slurmctld at once, as a crash does.
func (c *Cluster) KillController() { c.ctld.end(syscall.SIGKILL) }

// SignalController sends slurmctld a signal, such as SIGSTOP.
func (c *Cluster) SignalController(s syscall.Signal) error { return c.ctld.cmd.Process.Signal(s) }

// own makes the mounts that follow those of a mount namespace alone; in a chroot they are already.
const own = "mount --make-rprivate / 2>/dev/null; "

// configless is a slurmd that sees neither slurm.conf nor its folders, and gets its configuration from slurmctld.
const configless = own + `mount -t tmpfs tmpfs "$1/autosched" && mount --bind /dev/null "$1/slurm.conf" &&
mount -t tmpfs tmpfs /run && mkdir -p /run/slurm /run/munge &&
ln -s "$1/munge/socket" /run/munge/munge.socket.2 && unset SLURM_CONF &&
exec "$2" -D --conf-server 127.0.0.1:$3 -N "$4"`

// Configless starts the slurmd of a node again, in a mount namespace of its own as on a machine without slurm.conf.
func (c *Cluster) Configless(node string) error {
	i := slices.IndexFunc(c.daemons, func(d *daemon) bool { return d.name == "slurmd "+node })
	if i < 0 {
		return fmt.Errorf("slurmtest: there is no node %s", node)
	}
	before := c.daemons[i]
	before.end(syscall.SIGTERM)
	slurmd, err := lookPath("slurmd")
	if err != nil {
		return err
	}
	_, err = c.launch(before.name, "root", before, "unshare", "-m", "--propagation=unchanged", "sh",
		"-c", configless, "sh", c.o.Dir, slurmd,
		strconv.Itoa(c.port), node)
	return err
}

// Ended reports whether the slurmd of a node has ended.
func (c *Cluster) Ended(node string) bool {
	return slices.ContainsFunc(c.daemons, func(d *daemon) bool { return d.name == "slurmd "+node && !d.up() })
}

// StopAccounting ends slurmdbd.
func (c *Cluster) StopAccounting() { c.dbd.end(syscall.SIGKILL) }

// Stop ends everything that the cluster started.
func (c *Cluster) Stop() error {
	if c.ctld.up() {
		_ = c.SignalController(syscall.SIGCONT)
	}
	for _, d := range slices.Backward(c.daemons) {
		s := syscall.SIGTERM
		if strings.HasPrefix(d.name, "slurm") {
			s = syscall.SIGKILL // its state is not needed any more
		}
		d.end(s)
	}
	c.daemons = nil
	for range 20 { // jobs, which have left their daemons
		pids := c.processes()
		if len(pids) == 0 {
			if c.temporary {
				return os.RemoveAll(c.o.Dir)
			}
			return nil
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("slurmtest: processes %v do not end", c.processes())
}

// mark is the variable of the environment of this cluster's daemons and of the jobs that they start.
const mark = "AUTOSCHED_SLURMTEST="

// processes are the ones that this cluster started and their descendants.
func (c *Cluster) processes() []int {
	started := map[int]bool{}
	children := map[int][]int{}
	folders, _ := filepath.Glob("/proc/[0-9]*") // the pattern is correct
	for _, path := range folders {
		pid, err := strconv.Atoi(filepath.Base(path))
		if err != nil || pid == os.Getpid() {
			continue
		}
		stat, err := os.ReadFile(path + "/stat")
		if fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])); err == nil && len(fields) > 1 {
			parent, _ := strconv.Atoi(fields[1])
			children[parent] = append(children[parent], pid)
		}
		text, err := os.ReadFile(path + "/environ")
		started[pid] = err == nil && slices.ContainsFunc(bytes.Split(text, []byte{0}), func(v []byte) bool {
			return string(v) == mark+c.o.Dir
		}) || c.stepd(path)
	}
	var pids []int
	var add func(pid int)
	add = func(pid int) {
		if !slices.Contains(pids, pid) {
			pids = append(pids, pid)
			for _, child := range children[pid] {
				add(child)
			}
		}
	}
	for pid, is := range started {
		if is {
			add(pid)
		}
	}
	return pids
}

// stepd reports whether a process in /proc is a slurmstepd of this cluster: it has written its title over its
// environment, and has the log of its slurmd open.
func (c *Cluster) stepd(path string) bool {
	if name, err := os.ReadFile(path + "/comm"); err != nil || strings.TrimSpace(string(name)) != "slurmstepd" {
		return false
	}
	files, _ := filepath.Glob(path + "/fd/*") // the pattern is correct
	return slices.ContainsFunc(files, func(file string) bool {
		to, err := os.Readlink(file)
		return err == nil && strings.Contains(to+"/", c.o.Dir+"/")
	})
}

// Env is the environment of commands for this cluster.
func (c *Cluster) Env() []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "SLURM_") || strings.HasPrefix(v, mark)
	})
	return append(env, "SLURM_CONF="+c.Conf())
}

func (c *Cluster) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	path, err := lookPath(program)
	if err != nil {
		path = program
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = c.Env()
	cmd.Dir = "/"
	return cmd
}

// Run runs a command of Slurm's and returns its output.
func (c *Cluster) Run(ctx context.Context, program string, args ...string) ([]byte, error) {
	return c.RunAs(ctx, "root", program, args...)
}

// RunAs runs a command as a user of this machine.
func (c *Cluster) RunAs(ctx context.Context, as, program string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := c.command(ctx, program, args...)
	if as != "root" {
		credential, err := Credential(as)
		if err != nil {
			return nil, err
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	}
	out, err := cmd.Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(failed.Stderr))
	}
	if err != nil {
		err = fmt.Errorf("%s %s: %w", program, strings.Join(args, " "), err)
	}
	return out, err
}

// Credential is that of a user of this machine.
func Credential(name string) (*syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err1, err2)
}

func chown(path string, u *user.User) error {
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	return errors.Join(err1, err2, os.Chown(path, uid, gid))
}

// Job is a job that sleeps.
type Job struct {
	Seconds      int
	Nodes        int // 1 if 0
	GPUs         int // on each node
	Minutes      int // time limit; the partition's default if 0
	User         string
	Account, QOS string
	More         []string // further arguments of sbatch
}

// Submit submits a job and returns its id.
func (c *Cluster) Submit(ctx context.Context, j Job) (string, error) {
	args := []string{"--parsable", "-N", strconv.Itoa(max(1, j.Nodes)), "--ntasks-per-node=1", "-c", "1", "--mem=100",
		"-o", "/dev/null", "--chdir=/", "--requeue"}
	for _, o := range []struct{ name, value string }{{"--uid=", j.User}, {"--account=", j.Account}, {"--qos=", j.QOS}} {
		if o.value != "" {
			args = append(args, o.name+o.value)
		}
	}
	if j.GPUs > 0 {
		args = append(args, fmt.Sprintf("--gres=gpu:%d", j.GPUs))
	}
	if j.Minutes > 0 {
		args = append(args, "-t", strconv.Itoa(j.Minutes))
	}
	args = append(append(args, j.More...), c.path("job.sh"), strconv.Itoa(j.Seconds))
	out, err := c.Run(ctx, "sbatch", args...)
	return strings.TrimSpace(string(out)), err
}

// Supervise starts slurmctld again whenever it ends, as systemd does, until the context ends. The channel is closed
// then.
func (c *Cluster) Supervise(ctx context.Context) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ctx.Done():
				return
			case <-c.ctld.ended:
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Second):
			}
			_ = c.StartController(ctx) // tried again
		}
	}()
	return ended
}
