/// Which scopes have to be asked about again.
struct Doubts: Equatable, Sendable {
    private var families: FamilySet = []
    private var scopes: Set<Scope> = []

    init() {}

    /// Doubt about everything.
    static var all: Doubts {
        var doubts = Doubts()
        doubts.families = .all
        return doubts
    }

    var isEmpty: Bool { families.isEmpty && scopes.isEmpty }

    /// Whether a scope is doubted that asks about addresses of these families; without any, every doubt concerns it.
    func concern(_ scope: Scope, asking families: FamilySet) -> Bool {
        if isEmpty { return false }
        return families.isEmpty || !self.families.isDisjoint(with: families) || contains(scope)
    }

    /// The families of a doubted scope whose addresses have to be asked about: a route or address of one says nothing of the other.
    func families(of scope: Scope, asking families: FamilySet) -> FamilySet {
        families.isEmpty || contains(scope) ? .all : self.families.intersection(families)
    }

    private func contains(_ scope: Scope) -> Bool { !scopes.isEmpty && scopes.contains(scope) }

    mutating func insert(_ family: IPAddress.Family) { families.formUnion(FamilySet(family)) }

    mutating func insert(_ scope: Scope) { scopes.insert(scope) }

    mutating func formUnion(_ other: Doubts) {
        families.formUnion(other.families)
        if !other.scopes.isEmpty { scopes.formUnion(other.scopes) }
    }

    /// Adds the scopes that a hint can concern.
    ///
    /// A route decides about the addresses that it covers, and an address about its family. Of anything else it cannot be said:
    /// a link takes routes of both families with it or brings them back, without a word about them, and rules and nexthops apply
    /// to whatever leads through them.
    mutating func insert(_ hint: Hint, _ index: DestinationIndex) {
        switch hint.kind {
        case .route(let change):
            // A default route, or half of one, covers too many for a list.
            if change.destination.length <= 1 { return insert(change.destination.address.family) }
            for scope in index.scopes(in: change.destination) { scopes.insert(scope) }
        case .address(let address, _): insert(address.address.family)
        // Its scopes are known to those who know the names.
        case .host: break
        default: self = .all
        }
    }
}
