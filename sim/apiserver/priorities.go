package apiserver

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
)

// priorities are those by which discovery lists groups and their versions, and clients choose among resources
// of one name: the APIServices that a real cluster has say so (k8s.io/kubernetes/pkg/controlplane/apiserver,
// DefaultGenericAPIServicePriorities, and cmd/kube-apiserver/app, apiVersionPriorities). The last ones of a
// group were it long ago.
const priorities = `
apiregistration.k8s.io 20000 v1:100
apps 17800 v1:15 v1beta2:9 v1beta1:1
events.k8s.io 17750 v1:15 v1beta1:5
authentication.k8s.io 17700 v1:15 v1beta1:9
authorization.k8s.io 17600 v1:15 v1beta1:12
autoscaling 17500 v2:30 v1:15
batch 17400 v1:15 v1beta1:9
certificates.k8s.io 17300 v1:15 v1beta1:9
networking.k8s.io 17200 v1:15 v1beta1:9
extensions 17150 v1beta1:1
policy 17100 v1:15 v1beta1:9
rbac.authorization.k8s.io 17000 v1:15 v1beta1:12
storage.k8s.io 16800 v1:15 v1beta1:9
apiextensions.k8s.io 16700 v1:15 v1beta1:9
admissionregistration.k8s.io 16700 v1:15 v1beta1:12
scheduling.k8s.io 16600 v1:15 v1beta1:9
coordination.k8s.io 16500 v1:15 v1beta1:13
node.k8s.io 16300 v1:15 v1beta1:9
discovery.k8s.io 16200 v1:15 v1beta1:12
resource.k8s.io 16200 v1:21
flowcontrol.apiserver.k8s.io 16100 v1:21 v1beta3:18 v1beta2:15 v1beta1:12
storagemigration.k8s.io 15800 v1:15`

// setPriorities tells discovery.
func setPriorities(groups aggregated.ResourceManager) error {
	for _, line := range strings.Split(strings.TrimSpace(priorities), "\n") {
		fields := strings.Fields(line)
		var group int
		if _, err := fmt.Sscan(fields[1], &group); err != nil {
			return fmt.Errorf("priorities of %s: %w", fields[0], err)
		}
		for _, f := range fields[2:] {
			name, p, _ := strings.Cut(f, ":")
			var version int
			if _, err := fmt.Sscan(p, &version); err != nil {
				return fmt.Errorf("priorities of %s: %w", fields[0], err)
			}
			groups.SetGroupVersionPriority(metav1.GroupVersion{Group: fields[0], Version: name}, group, version)
		}
	}
	return nil
}
