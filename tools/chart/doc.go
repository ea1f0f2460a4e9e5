// Package chart tests the Helm chart of deploy/helm: by Helm's own code, by the schemas and
// Go types of Kubernetes, and by Headgate itself. It is a module of its own because no other
// part of the tree needs what it needs.
package chart
