/// What a link message changed.
package enum LinkChange: Equatable, Sendable {
    case shutDown
    case lostCarrier
    case setUp
    case gotCarrier
    case becameOperational
    case stoppedOperating
    case blinked
    case renamed(from: String)
    case nothingOfInterest

    package init(from old: NetworkInterface, to new: NetworkInterface) {
        self =
            switch (old.isUp, new.isUp, old.hasCarrier, new.hasCarrier) {
            case (true, false, _, _): .shutDown
            case (_, true, true, false): .lostCarrier
            case (_, true, false, true): .gotCarrier
            case (false, true, _, _): .setUp
            default:
                if old.isUsable != new.isUsable {
                    new.isUsable ? .becameOperational : .stoppedOperating
                } else if old.name != new.name {
                    .renamed(from: old.name)
                } else if old.carrierChanges != new.carrierChanges {
                    .blinked
                } else {
                    .nothingOfInterest
                }
            }
    }

    package var causeKind: Cause.Kind {
        switch self {
        case .shutDown, .lostCarrier, .stoppedOperating: .linkDown
        case .setUp, .gotCarrier, .becameOperational, .blinked: .linkUp
        case .renamed, .nothingOfInterest: .linkChanged
        }
    }

    package func text(_ name: String) -> String {
        switch self {
        case .shutDown: "\(name) was shut down"
        case .lostCarrier: "\(name) lost carrier"
        case .setUp: "\(name) was set up"
        case .gotCarrier: "\(name) got carrier"
        case .becameOperational: "\(name) became operational"
        case .stoppedOperating: "\(name) stopped operating"
        case .blinked: "\(name) lost carrier and got it back"
        case .renamed(let old): "\(old) was renamed to \(name)"
        case .nothingOfInterest: "\(name) changed"
        }
    }
}
