package apiserver

const (
	deployPath    = "/apis/apps/v1/namespaces/default/deployments"
	configMapPath = "/api/v1/namespaces/default/configmaps"
	jsonType      = "application/json"
)

const widgetCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList, shortNames: [wd]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            x-kubernetes-validations:
            - rule: "self.replicas <= 10"
              message: too many replicas
            properties:
              color: {type: string, default: blue}
              replicas: {type: integer, default: 1}
              size: {type: integer}
          status:
            type: object
            properties:
              phase: {type: string}
              replicas: {type: integer}
`

func widget(name, rest string) string {
	return `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"` + name + `","namespace":"default"}` + rest + `}`
}
