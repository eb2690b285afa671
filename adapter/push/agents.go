package push

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/autosched/autosched/client"
)

// Agent is a scheduler that is called, and how.
type Agent struct {
	// Scheduler is the id of the scheduler, Instance that of its instance that answers.
	Scheduler string `yaml:"scheduler"`
	Instance  string `yaml:"instance"`
	// Endpoint is where it answers.
	client.Endpoint `yaml:",inline"`
	// AllowPlaintext lets an address other than loopback be called unencrypted.
	AllowPlaintext bool `yaml:"allow-plaintext"`
	// Deadline bounds an application with its reading back; 10 s if 0.
	Deadline time.Duration `yaml:"deadline"`
	// Interval is the time between looks at the values in force; 30 s if 0.
	Interval time.Duration `yaml:"interval"`
}

const (
	defaultDeadline = 10 * time.Second
	defaultInterval = 30 * time.Second
)

// ReadAgents reads a YAML file of the agents to call:
//
//	agents:
//	  - scheduler: prod
//	    address: scheduler.example.org:7500
//	    tls-ca: pki/ca.pem
//	    tls-cert: pki/autosched.pem
//	    tls-key: pki/autosched.key
//
// Unknown fields and two agents of one instance are errors, which name the line.
func ReadAgents(path string) ([]Agent, error) {
	text, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	agents, err := parseAgents(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return agents, nil
}

func parseAgents(text []byte) ([]Agent, error) {
	var file struct {
		Agents []Agent `yaml:"agents"`
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(file.Agents) == 0 {
		return nil, errors.New("has no agents: name at least one under agents")
	}
	var nodes struct {
		Agents []yaml.Node `yaml:"agents"`
	}
	if err := yaml.Unmarshal(text, &nodes); err != nil {
		return nil, err
	}
	seen := map[[2]string]bool{}
	for i := range file.Agents {
		a := &file.Agents[i]
		err := a.check()
		if id := [2]string{a.Scheduler, a.Instance}; err == nil && seen[id] {
			err = fmt.Errorf("instance: %q of scheduler %s is another agent's, too", a.Instance, a.Scheduler)
		} else {
			seen[id] = true
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: agents[%d].%w", nodes.Agents[i].Line, i, err)
		}
	}
	return file.Agents, nil
}

// check checks the fields and sets defaults.
func (a *Agent) check() error {
	switch {
	case a.Scheduler == "":
		return errors.New("scheduler: is missing: the id of a scheduler")
	case a.Address == "":
		return errors.New("address: is missing: host:port at which the scheduler answers")
	case a.Deadline < 0:
		return fmt.Errorf("deadline: %v is negative", a.Deadline)
	case a.Interval < 0:
		return fmt.Errorf("interval: %v is negative", a.Interval)
	}
	if err := a.Check(); err != nil {
		return errors.New(strings.Replace(err.Error(), "server:", "address:", 1)) // as it is called here
	}
	host, _, err := net.SplitHostPort(a.Address)
	if err == nil && a.CA == "" && !a.AllowPlaintext && !client.Loopback(host) {
		return fmt.Errorf("tls-ca: is missing: %s is not a loopback address, and would be called unencrypted; "+
			"allow-plaintext: true permits that", a.Address)
	}
	if a.Deadline == 0 {
		a.Deadline = defaultDeadline
	}
	if a.Interval == 0 {
		a.Interval = defaultInterval
	}
	return nil
}
