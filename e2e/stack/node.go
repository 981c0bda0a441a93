package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// nodeName is the one node of a cluster.
const nodeName = "node1"

// podLogLines is how many lines the log of every pod has.
const podLogLines = 20

// nodeManifest is the node before kwok makes it ready.
const nodeManifest = `apiVersion: v1
kind: Node
metadata:
  name: ` + nodeName + `
  labels: {kubernetes.io/hostname: ` + nodeName + `, kubernetes.io/os: linux, type: kwok}
status:
  allocatable: {cpu: "32", memory: 256Gi, pods: "1000"}
  capacity: {cpu: "32", memory: 256Gi, pods: "1000"}
`

// podConfig lets all pods show one log file, lets exec run on the host in one
// directory, and has port 80 of all of them be the API server's.
const podConfig = `---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterLogs
metadata: {name: all}
spec:
  logs: [{logsFile: %q, follow: true}]
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterExec
metadata: {name: all}
spec:
  execs: [{local: {workDir: %q}}]
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterPortForward
metadata: {name: all}
spec:
  forwards: [{ports: [80], target: {address: 127.0.0.1, port: %d}}]
`

// startNode starts kwok and returns once the node is ready.
func (c *Cluster) startNode(ctx context.Context) error {
	if err := c.writeNodeFiles(ctx); err != nil {
		return err
	}
	if err := c.Apply(ctx, []byte(nodeManifest)); err != nil {
		return err
	}
	return c.part(programs, Kwok, ProcessConfig{
		Args: []string{
			"--kubeconfig=" + c.Kubeconfig(),
			"--config=" + c.file("kwok.yaml"),
			"--manage-all-nodes",
			"--node-ip=127.0.0.1",
			fmt.Sprintf("--node-port=%d", c.ports[Kwok]),
			"--server-address=" + c.address(Kwok),
			"--tls-cert-file=" + c.file("server.crt"),
			"--tls-private-key-file=" + c.file("server.key"),
			"--node-lease-duration-seconds=40",
		},
		// Exec runs programs of the host. HOME holds no configuration.
		Env:   []string{"GOGC=50", "HOME=" + c.dir, path()},
		Ready: c.nodeReady,
	}).Start(ctx)
}

// writeNodeFiles writes kwok's configuration and the log that pods show.
func (c *Cluster) writeNodeFiles(ctx context.Context) error {
	stages, err := exec.CommandContext(ctx, c.stack.binaries.Path("kwok-stages")).Output()
	if err != nil {
		return fmt.Errorf("stack: stages of kwok: %w", err)
	}
	var lines strings.Builder
	for i := range podLogLines {
		fmt.Fprintf(&lines, "%s stdout F line %d of %s\n", time.Now().UTC().Format(time.RFC3339Nano), i, c.cfg.Name)
	}
	podLog := c.PodLog()
	config := string(stages) + fmt.Sprintf(podConfig, podLog, c.dir, c.ports[APIServer])
	err = errors.Join(
		os.WriteFile(podLog, []byte(lines.String()), 0o644),
		os.WriteFile(c.file("kwok.yaml"), []byte(config), 0o644),
	)
	if err != nil {
		return fmt.Errorf("stack: configure kwok of %s: %w", c.cfg.Name, err)
	}
	return nil
}

// nodeReady tells whether kwok keeps the node.
func (c *Cluster) nodeReady(ctx context.Context) error {
	nodes := schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	node, err := c.client.Resource(nodes).Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return condition(node, "Ready")
}

// condition returns nil if the object's status has that condition as True.
func condition(object *unstructured.Unstructured, kind string) error {
	conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
	if err != nil {
		return err
	}
	for _, entry := range conditions {
		fields, ok := entry.(map[string]any)
		if ok && fields["type"] == kind && fields["status"] == "True" {
			return nil
		}
	}
	return fmt.Errorf("%s %s is not %s yet", object.GetKind(), object.GetName(), kind)
}
