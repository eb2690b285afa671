// Package cluster connects to the API server of a Kubernetes cluster. Objects are read and written without their
// schedulers' Go types, which change with each release.
package cluster

import (
	"errors"
	"fmt"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Config returns how the API server is reached: as a context of a file of kubectl, empty for the file's own, or, where
// no file is named, as kubectl does and, in a pod, by its service account.
func Config(file, context string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = file
	c, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: context}).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("no way to the API server: kubectl has no file of clusters here: " +
			"--kubeconfig or KUBECONFIG names one")
	}
	if err != nil {
		return nil, fmt.Errorf("no way to the API server: %w", err)
	}
	c.UserAgent = "autosched-kube"
	return c, nil
}

// Open returns a client of a cluster's objects.
func Open(c *rest.Config) (dynamic.Interface, error) { return dynamic.NewForConfig(c) }
