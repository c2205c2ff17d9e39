package import ReachabilityTesting

/// Values that tests collect from any thread, and can wait for.
package typealias Recorder<Element: Sendable> = Rendezvous<[Element]>

/// A number that tests count from any thread, and can wait for.
package typealias Counter = Rendezvous<Int>

extension Rendezvous {
    package convenience init<Element>() where Value == [Element] { self.init([]) }

    package func record<Element>(_ element: Element) where Value == [Element] { change { $0.append(element) } }

    package func record<Element>(contentsOf elements: [Element]) where Value == [Element] { change { $0 += elements } }

    /// Returns what was recorded, and begins anew.
    package func take<Element>() -> [Element] where Value == [Element] {
        var taken: [Element] = []
        change { swap(&taken, &$0) }
        return taken
    }
}

extension Rendezvous<Int> {
    package convenience init() { self.init(0) }

    /// Counts; returns the number.
    @discardableResult
    package func add() -> Int {
        var number = 0
        change {
            $0 += 1
            number = $0
        }
        return number
    }
}
