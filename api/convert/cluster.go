package convert

import (
	"encoding/json"
	"reflect"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/workload"
)

// maxClusterText bounds the description of a cluster, in bytes of JSON.
const maxClusterText = 1 << 20

// ClusterField is the prefix of the fields of a cluster in a registration.
const ClusterField = "scheduler.spec.cluster."

// ClusterFromProto reads a cluster, and adds its violations.
func ClusterFromProto(c *pb.Cluster, v *Violations) workload.Cluster {
	if c.GetDescription() == nil {
		if n := c.GetNodes(); n <= 0 || n > workload.MaxNodes {
			v.Add(ClusterField+"nodes", "%d is not from 1 to 1,000,000", n)
		}
		if n := c.GetGpusPerNode(); n <= 0 || n > workload.MaxGPUsPerNode {
			v.Add(ClusterField+"gpus_per_node", "%d is not from 1 to 1024", n)
		}
		return workload.Uniform(int(c.GetNodes()), int(c.GetGpusPerNode()))
	}
	const field = ClusterField + "description"
	text, err := protojson.Marshal(c.GetDescription())
	if len(text) > maxClusterText {
		v.Add(field, "has %d bytes of JSON, more than %d", len(text), maxClusterText)
		return workload.Cluster{}
	}
	var out workload.Cluster
	if err == nil {
		out, err = workload.ParseCluster(text)
	}
	if err != nil {
		v.Add(field, "%v", err)
		return out
	}
	if n := int(c.GetNodes()); n != 0 && n != out.Nodes() {
		v.Add(ClusterField+"nodes", "%d is not the %d of the description", n, out.Nodes())
	}
	if n := int(c.GetGpusPerNode()); n != 0 && n != out.GPUsPerNode() {
		v.Add(ClusterField+"gpus_per_node", "%d is not the %d of the description", n, out.GPUsPerNode())
	}
	return out
}

// ClusterToProto has a description if the cluster is more than equal nodes.
func ClusterToProto(c workload.Cluster) *pb.Cluster {
	out := &pb.Cluster{Nodes: int32(c.Nodes()), GpusPerNode: int32(c.GPUsPerNode())}
	if reflect.DeepEqual(c, workload.Uniform(c.Nodes(), c.GPUsPerNode())) {
		return out
	}
	text, err := json.Marshal(c)
	if err == nil {
		out.Description = &structpb.Struct{}
		err = protojson.Unmarshal(text, out.Description)
	}
	if err != nil {
		panic("server: a cluster does not marshal: " + err.Error())
	}
	return out
}
