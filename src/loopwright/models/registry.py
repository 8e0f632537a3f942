"""placeholder"""
def resolve_model(name): raise ValueError(name)
