internal import Reachability

/// Duplicate address detection as a process in time (RFC 4862 §5.4; net/ipv6/addrconf.c, addrconf_dad_work()).
extension SimulatedKernel {
    /// A detection that is going on.
    struct Detection: Hashable, Sendable {
        var address: IPAddress
        var interface: UInt32
        var end: Duration
    }

    /// When something happens next by itself; `nil` if nothing does.
    public var nextDeadline: Duration? { detections.map(\.end).min() }

    /// Lets time pass: detections that are over by then end well, in the order of their ends.
    ///
    /// Each end is announced. A ``SimulatedNetwork`` calls it by its clock. Time does not go backwards.
    public mutating func advance(to time: Duration) {
        while let next = detections.min(by: { $0.end < $1.end }), next.end <= time {
            now = max(now, next.end)
            detections.removeAll { $0 == next }
            guard let position = links.firstIndex(where: { $0.interface.index == next.interface }) else { continue }
            finishDetection(of: next.address, at: position, hasFailed: false)
        }
        now = max(now, time)
    }

    /// Takes over the time of a clock: what is going on goes on for as long as it would have.
    mutating func takeOver(_ time: Duration) {
        let shift = time.saturatingSubtract(now)
        for place in detections.indices { detections[place].end = detections[place].end.saturatingAdd(shift) }
        now = time
    }

    /// Ends the duplicate address detection of a tentative address: it can be used, or if detection failed never will be.
    ///
    /// It is announced.
    public mutating func finishDetection(
        of text: String, on name: String, hasFailed: Bool = false
    ) throws(SimulationError) {
        let operation = "finishDetection(of: \"\(text)\", on: \"\(name)\")"
        let position = try position(of: name, for: operation)
        let entry = try find(try parseAddress(text, for: operation).address, at: position, for: operation)
        guard entry.isTentative, !entry.hasFailedDetection else {
            throw SimulationError(operation, "it is not tentative: add it with isTentative: true, or set detectionTime before")
        }
        guard links[position].interface.isUp else {
            throw SimulationError(operation, "nothing is detected while \(name) is down: set it up first")
        }
        finishDetection(of: entry.address, at: position, hasFailed: hasFailed)
    }

    /// Begins the detection of the addresses of a link in working order that await it.
    mutating func startDetections(_ position: Int) {
        guard let detectionTime, links[position].isReady else { return }
        let interface = links[position].interface
        for held in interface.addresses where held.isTentative && !held.hasFailedDetection {
            guard !detections.contains(where: { $0.address == held.address && $0.interface == interface.index }) else { continue }
            if detectionTime <= .zero {
                finishDetection(of: held.address, at: position, hasFailed: false)
            } else {
                detections.append(
                    Detection(address: held.address, interface: interface.index, end: now.saturatingAdd(detectionTime)))
            }
        }
    }

    mutating func stopDetection(of address: IPAddress? = nil, on interface: UInt32) {
        detections.removeAll { $0.interface == interface && (address == nil || $0.address == address) }
    }

    private mutating func finishDetection(of address: IPAddress, at position: Int, hasFailed: Bool) {
        let interface = links[position].interface
        stopDetection(of: address, on: interface.index)
        guard let place = interface.addresses.firstIndex(where: { $0.address == address }) else { return }
        // An address that failed stays tentative: net/ipv6/addrconf.c, addrconf_dad_stop().
        links[position].interface.addresses[place].isTentative = hasFailed
        links[position].interface.addresses[place].isOptimistic = false
        links[position].interface.addresses[place].hasFailedDetection = hasFailed
        announce(.address(links[position].interface.addresses[place], interface: interface.index))
    }
}
