extension NetworkPath {
    /// What changed from an earlier path.
    ///
    /// Empty if the difference is not worth telling: metric, prefix length, table, lifetimes, or the reasons of families while
    /// the path's status and reason stay.
    package func kinds(since old: NetworkPath) -> Transition.Kinds {
        switch (old.isSatisfied, isSatisfied) {
        case (false, true): return .online
        case (true, false): return .offline
        case (false, false):
            let isSame =
                old.status == status && old.offlineReason == offlineReason && old.nameLookupFailure == nameLookupFailure
            return isSame ? [] : .reasonChanged
        case (true, true):
            var kinds: Transition.Kinds = []
            for family in IPAddress.Family.allCases { kinds.formUnion(self[family].kinds(since: old[family])) }
            if interface?.identity != old.interface?.identity { kinds.insert(.interfaceChanged) }
            if validation != old.validation { kinds.insert(.validationChanged) }
            return kinds
        }
    }

    /// Whether the table's entries must be read again: the way that packets take is not the one that was last described.
    package func takesAnotherWay(than old: NetworkPath?) -> Bool {
        guard let old else { return true }
        return IPAddress.Family.allCases.contains { family in
            supports(family) && (!old.supports(family) || !self[family].kinds(since: old[family]).isEmpty)
        }
    }

    /// Takes over what is only read on change, so that an unchanged path stays fully described.
    package mutating func copyDetails(from old: NetworkPath) {
        for family in IPAddress.Family.allCases where supports(family) && old.supports(family) {
            describe(family, metric: old[family].metric, prefixLength: old[family].prefixLength)
        }
    }
}

extension FamilyPath {
    fileprivate func kinds(since old: FamilyPath) -> Transition.Kinds {
        switch (old.isSatisfied, isSatisfied) {
        case (false, false): return []
        case (false, true): return .familyGained
        case (true, false): return .familyLost
        case (true, true):
            var kinds: Transition.Kinds = []
            if old.interface != interface { kinds.insert(.interfaceChanged) }
            if old.gateway != gateway { kinds.insert(.gatewayChanged) }
            if old.source != source { kinds.insert(.sourceChanged) }
            return kinds
        }
    }
}
