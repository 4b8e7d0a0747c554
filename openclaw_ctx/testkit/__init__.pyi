from .store_contract import StoreContract as StoreContract
