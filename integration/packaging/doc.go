// Package packaging tests what a release is: archives and Debian packages that
// come out the same from two folders, and install, work and go.
package packaging
