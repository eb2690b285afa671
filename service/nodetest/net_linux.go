package nodetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Net is a bridge with a network namespace for each node. This process reaches the nodes and the nodes each other.
type Net struct {
	id    string
	nodes int
}

// NewNet makes a network for nodes numbered from 0. It needs root.
func NewNet(nodes int) (*Net, error) {
	n := &Net{id: fmt.Sprintf("as%d", os.Getpid()%100_000), nodes: nodes}
	n.remove() // the rest of a killed process of this number
	steps := []string{"link add " + n.id + " type bridge", "addr add " + n.addr(1) + "/24 dev " + n.id,
		"link set " + n.id + " up"}
	for i := range nodes {
		ns := n.Namespace(i)
		steps = append(steps, "netns add "+ns, "link add "+ns+" type veth peer name eth0 netns "+ns,
			"link set "+ns+" master "+n.id+" up", "-n "+ns+" addr add "+n.Host(i)+"/24 dev eth0",
			"-n "+ns+" link set lo up", "-n "+ns+" link set eth0 up")
	}
	for _, s := range steps {
		if err := ip(s); err != nil {
			return nil, errors.Join(err, n.Close())
		}
	}
	return n, nil
}

func ip(args string) error {
	out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", args, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// addr is in a network for measurements between networks (RFC 2544), which nothing else uses.
func (n *Net) addr(last int) string { return fmt.Sprintf("198.18.%d.%d", os.Getpid()%256, last) }

// Host is the address of a node.
func (n *Net) Host(node int) string { return n.addr(10 + node) }

// Namespace is the name of a node's network namespace.
func (n *Net) Namespace(node int) string { return fmt.Sprintf("%sn%d", n.id, node) }

// Cut drops the packets that a node sends to another: all, or those to and from a TCP port.
func (n *Net) Cut(from, to int, ports ...int) error { return n.rules("add", from, to, ports) }

// Repair ends what Cut began with the same arguments.
func (n *Net) Repair(from, to int, ports ...int) error { return n.rules("del", from, to, ports) }

func (n *Net) rules(what string, from, to int, ports []int) error {
	rule := "-n " + n.Namespace(from) + " rule " + what + " pref 100 to " + n.Host(to) + "/32"
	if len(ports) == 0 {
		return ip(rule + " blackhole")
	}
	var errs []error
	for _, p := range ports {
		for _, end := range []string{"sport", "dport"} {
			errs = append(errs, ip(fmt.Sprintf("%s ipproto tcp %s %d blackhole", rule, end, p)))
		}
	}
	return errors.Join(errs...)
}

// Unplug takes a node off the network, or puts it back.
func (n *Net) Unplug(node int, off bool) error {
	state := " up"
	if off {
		state = " down"
	}
	return ip("link set " + n.Namespace(node) + state)
}

func (n *Net) remove() error {
	var errs []error
	for i := range n.nodes {
		errs = append(errs, ip("netns del "+n.Namespace(i)))
		_ = ip("link del " + n.Namespace(i)) // its other end went with the namespace, soon
	}
	return errors.Join(append(errs, ip("link del "+n.id))...)
}

// Close removes the network. Its processes must have ended.
func (n *Net) Close() error { return n.remove() }
